"""Optimisers as trainers use them: by name, on the flat parameters of N models or on those of one torch module."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from audit import plugins
from audit.core.training import TrainingJob
from audit.engine.parameter_layout import Layout


class OptimizerState(Protocol):
    """Updates the flat parameters in place from the flat gradient, both `(N, width)`."""

    def step(self, flat: Tensor, gradient: Tensor) -> None: ...


class Optimizer(Protocol):
    """The options of an optimiser (`audit/optimizers`); `start` gives a fresh state for a training of so many steps."""

    def start(self, steps: int) -> OptimizerState: ...


@runtime_checkable
class PlainOptimizer(Protocol):
    """An optimiser that torch has too, at a constant learning rate, which trainers of one module at a time need."""

    def plain(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer: ...


class GradientReader(Protocol):
    """Recovers the gradients of a training from its weights, step by step from the first, all `(N, width)`."""

    def gradient(self, before: Tensor, after: Tensor) -> Tensor: ...


@runtime_checkable
class ReadableOptimizer(Protocol):
    """An optimiser with gradients that follow from the weights before and after its steps, in floating-point numbers too."""

    def read(self, steps: int) -> GradientReader: ...


@runtime_checkable
class NamedOptimizer(Protocol):
    """An optimiser that distinguishes parameters: it also starts with views of the flat storage by parameter name."""

    def start_by_name(self, steps: int, views: Callable[[Tensor], Mapping[str, Tensor]]) -> OptimizerState: ...


def start_optimizer(job: TrainingJob, layout: Layout) -> OptimizerState:
    """A fresh state of a job's optimiser, for parameters of N models as `layout` says; errors as of `build_optimizer`."""
    optimizer = build_optimizer(job)
    if not isinstance(optimizer, NamedOptimizer):
        return optimizer.start(job.steps)
    return optimizer.start_by_name(job.steps, layout.views)


def build_optimizer(job: TrainingJob) -> Optimizer:
    """Return the optimiser that a job names; `ConfigError` for an unknown kind or key, or a value out of range."""
    optimizer: Optimizer = plugins.build("audit.optimizers", {"kind": "sgd", **job.optimizer}, "optimizer")
    return optimizer
