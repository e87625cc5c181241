"""What Adam and AdamW share: their options, two running moments, one fused update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from audit.core import checks
from audit.optimizers._schedule import check_common, check_share, rate_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Options of an optimiser with two running moments; abstract: `fused` and `torch_class` are its own.

    Attributes:
        beta1, beta2: decay of the first and the second moment.
        stability: added to the root of the second moment.
        fused: updates all parameters in one pass over memory, in place of ten.
        torch_class: the same optimiser in torch.
    """

    fused: ClassVar[Callable[..., None]]
    torch_class: ClassVar[Callable[..., torch.optim.Optimizer]]

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    stability: float = 1e-8
    weight_decay: float = 0.0
    schedule: str = "constant"
    warmup: int = 0

    def __post_init__(self) -> None:
        check_common(self.learning_rate, self.weight_decay, self.schedule, self.warmup)
        checks.positive(self.stability, "optimizer.stability")
        check_share(self.beta1, "beta1")
        check_share(self.beta2, "beta2")

    def start(self, steps: int) -> _State:
        return _State(self, steps)

    def plain(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        betas: dict[str, Any] = {"betas": (self.beta1, self.beta2), "eps": self.stability}
        return type(self).torch_class(parameters, lr=self.learning_rate, weight_decay=self.weight_decay, **betas)


class _State:
    def __init__(self, options: Moments, total: int) -> None:
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
        type(options).fused(
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(Moments):
    """Options of Adam; `weight_decay` is added to the gradient.

    References:
        Kingma and Ba 2015, arXiv 1412.6980.
    """

    fused = torch._fused_adam_
    torch_class = torch.optim.Adam


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamW(Moments):
    """Options of AdamW; `weight_decay` acts on the parameters.

    References:
        Loshchilov and Hutter 2019, arXiv 1711.05101.
    """

    fused = torch._fused_adamw_
    torch_class = torch.optim.AdamW
