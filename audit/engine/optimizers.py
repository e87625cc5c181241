"""Optimisers on the flat parameters of N models: one fused update for all of them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

import torch
from torch import Tensor

from audit.core import checks
from audit.core.errors import ConfigError


class Optimizer(Protocol):
    """Updates the flat parameters in place from the flat gradient, both `(N, width)`."""

    def step(self, flat: Tensor, gradient: Tensor) -> None: ...


SCHEDULES = ("constant", "linear", "cosine")


def rate_factor(schedule: str, warmup: int, step: int, steps: int) -> float:
    """What the learning rate is multiplied with at `step` of `steps`, counted from 0.

    It rises linearly over `warmup` steps, then stays ("constant") or falls to 0 along a line or half a cosine.
    A function of public numbers: it does not touch the guarantee.

    >>> [rate_factor("linear", 2, step, 6) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}[schedule]


def _check_schedule(schedule: str, warmup: int) -> None:
    if schedule not in SCHEDULES:
        raise ConfigError(f"optimizer.schedule is '{schedule}'; expected one of {', '.join(SCHEDULES)}")
    if warmup < 0:
        raise ConfigError(f"optimizer.warmup is {warmup}; expected a number of steps of at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sgd:
    """Options of stochastic gradient descent; `weight_decay` is added to the gradient."""

    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: str = "constant"
    warmup: int = 0

    def __post_init__(self) -> None:
        checks.positive(self.learning_rate, "optimizer.learning_rate")
        _check_schedule(self.schedule, self.warmup)
        checks.nonnegative(self.weight_decay, "optimizer.weight_decay")
        if not 0 <= self.momentum < 1:
            raise ConfigError(f"optimizer.momentum is {self.momentum}; expected a number in [0, 1)")

    def start(self, steps: int) -> Optimizer:
        """A fresh state for a training of `steps` steps."""
        return _SgdState(self, steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Options of Adam; `decoupled` makes `weight_decay` act on the parameters (AdamW).

    References:
        Kingma and Ba 2015, arXiv 1412.6980; Loshchilov and Hutter 2019, arXiv 1711.05101.
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    stability: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False
    schedule: str = "constant"
    warmup: int = 0

    def __post_init__(self) -> None:
        checks.positive(self.learning_rate, "optimizer.learning_rate")
        _check_schedule(self.schedule, self.warmup)
        checks.positive(self.stability, "optimizer.stability")
        checks.nonnegative(self.weight_decay, "optimizer.weight_decay")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"optimizer.{name} is {getattr(self, name)}; expected a number in [0, 1)")

    def start(self, steps: int) -> Optimizer:
        """A fresh state for a training of `steps` steps."""
        return _AdamState(self, steps)


class _SgdState:
    def __init__(self, options: Sgd, total: int) -> None:
        self._options = options
        self._velocity: Tensor | None = None
        self._done, self._total = 0, total

    def step(self, flat: Tensor, gradient: Tensor) -> None:
        options = self._options
        if options.weight_decay:
            gradient = gradient.add(flat, alpha=options.weight_decay)
        if options.momentum:
            if self._velocity is None:
                self._velocity = torch.zeros_like(flat)
            gradient = self._velocity.mul_(options.momentum).add_(gradient)
        rate = options.learning_rate * rate_factor(options.schedule, options.warmup, self._done, self._total)
        self._done += 1
        flat.add_(gradient, alpha=-rate)


class _AdamState:
    def __init__(self, options: Adam, total: int) -> None:
        self._options = options
        self._total = total
        self._first: Tensor | None = None
        self._second: Tensor | None = None
        self._steps = 0

    def step(self, flat: Tensor, gradient: Tensor) -> None:
        options = self._options
        if self._first is None or self._second is None:
            self._first, self._second = torch.zeros_like(flat), torch.zeros_like(flat)
            self._count = torch.zeros((), device=flat.device)
        learning = options.learning_rate * rate_factor(options.schedule, options.warmup, self._steps, self._total)
        self._steps += 1
        fused = torch._fused_adamw_ if options.decoupled else torch._fused_adam_  # one pass over memory in place of ten
        fused(
            [flat],
            [gradient],
            [self._first],
            [self._second],
            [],
            [self._count.add_(1.0)],
            lr=learning,
            beta1=options.beta1,
            beta2=options.beta2,
            weight_decay=options.weight_decay,
            eps=options.stability,
            amsgrad=False,
            maximize=False,
        )


def parse(spec: Mapping[str, Any]) -> Sgd | Adam:
    """The options that an `optimizer` section names.

    Raises:
        ConfigError: unknown kind or key (with the nearest match), or a value out of range.

    >>> parse({"kind": "sgd", "learning_rate": 0.1}).momentum
    0.0
    """
    options = dict(spec)
    kind = options.pop("kind", "sgd")
    kinds: dict[str, type[Sgd] | type[Adam]] = {"sgd": Sgd, "adam": Adam, "adamw": Adam}
    if kind not in kinds:
        raise ConfigError(f"optimizer: kind {kind!r} is not known. It may be: {', '.join(kinds)}")
    if kind == "adamw":
        options["decoupled"] = True
    if kind != "sgd" and options.get("momentum") == 0:
        del options["momentum"]  # a default of the config that says nothing about Adam
    allowed = [one.name for one in fields(kinds[kind])]
    for key in options:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ConfigError(f"optimizer.{kind}: unknown key '{key}'.{hint} It takes: {', '.join(allowed)}")
    try:
        return kinds[kind](**options)
    except TypeError as error:
        raise ConfigError(f"optimizer.{kind}: {error}") from error
