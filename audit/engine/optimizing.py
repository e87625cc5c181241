"""Optimisers as trainers use them: by name, on the flat parameters of N models or on those of one torch module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from audit import plugins
from audit.core.training import TrainingJob


class OptimizerState(Protocol):
    """Updates the flat parameters in place from the flat gradient, both `(N, width)`."""

    def step(self, flat: Tensor, gradient: Tensor) -> None: ...


class Optimizer(Protocol):
    """The options of an optimiser (`audit/optimizers`); `start` gives a fresh state for a training of so many steps."""

    def start(self, steps: int) -> OptimizerState: ...


@runtime_checkable
class PlainOptimizer(Protocol):
    """An optimiser that torch has too, which trainers of one module at a time need."""

    def plain(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer: ...


def optimizer_of(job: TrainingJob) -> Optimizer:
    """Return the optimiser that a job names.

    Raises:
        ConfigError: unknown kind or key (with the nearest match), or a value out of range.
    """
    optimizer: Optimizer = plugins.build("audit.optimizers", {"kind": "sgd", **job.optimizer}, "optimizer")
    return optimizer
