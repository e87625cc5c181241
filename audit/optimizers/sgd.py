"""Stochastic gradient descent, with momentum and weight decay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from audit.optimizers._schedule import check_common, check_share, rate_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Sgd:
    """Options of stochastic gradient descent; `weight_decay` is added to the gradient."""

    learning_rate: float = 0.5
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: str = "constant"
    warmup: int = 0

    def __post_init__(self) -> None:
        check_common(self.learning_rate, self.weight_decay, self.schedule, self.warmup)
        check_share(self.momentum, "momentum")

    def start(self, steps: int) -> _State:
        return _State(self, steps)

    def read(self, steps: int) -> _Reader:
        return _Reader(self, steps)

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate at `step` of `steps`, counted from 0."""
        return self.learning_rate * rate_factor(self.schedule, self.warmup, step, steps)

    def plain(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum, weight_decay=self.weight_decay)


class _State:
    def __init__(self, options: Sgd, total: int) -> None:
        self._options = options
        self._velocity: Tensor | None = None
        self._step_count, self._total = 0, total

    def step(self, flat: Tensor, gradient: Tensor) -> None:
        options = self._options
        if options.weight_decay:
            gradient = gradient.add(flat, alpha=options.weight_decay)
        if options.momentum:
            if self._velocity is None:
                self._velocity = torch.zeros_like(flat)
            gradient = self._velocity.mul_(options.momentum).add_(gradient)
        rate = options.rate(self._step_count, self._total)
        self._step_count += 1
        flat.add_(gradient, alpha=-rate)


class _Reader:
    """Undoes steps one after the other, from the first."""

    def __init__(self, options: Sgd, total: int) -> None:
        self._options, self._total = options, total
        self._velocity: Tensor | None = None
        self._step_count = 0

    def gradient(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the gradient `(N, width)` of the step from `before` to `after`."""
        options = self._options
        gradient = velocity = (before - after) / options.rate(self._step_count, self._total)
        if self._velocity is not None:
            gradient = velocity - options.momentum * self._velocity
        if options.momentum:
            self._velocity = velocity
        self._step_count += 1
        return gradient.sub(before, alpha=options.weight_decay)


PLUGIN = Sgd
