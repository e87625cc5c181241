"""Torch programs, right and wrong: sums, and whole trainings as one program, `run(data, rng)` with data of shape `(n, 3)`."""

# ruff: noqa: PLC3002, PLW2901  programs as users write them
from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.replay.corpus import REFUTED, Program, right

STEPS, SIGMA = 4, 2.0  # mu = sqrt(4) / 2 = 1


def _tensor(d: Any) -> Tensor:
    x = torch.from_numpy(np.clip(np.nan_to_num(np.asarray(d, float), nan=0.0), -1, 1).reshape(-1, 3))
    return (x / x.norm(dim=1, keepdim=True).clamp(min=1.0)).float()


def _clipped(model: nn.Module, x: Tensor) -> list[Tensor]:
    """Return the sum of clipped gradients, record by record."""
    total = [torch.zeros_like(p) for p in model.parameters()]
    for record in x:
        loss = (model(record[:2]) - record[2]).pow(2).sum()
        result = torch.autograd.grad(loss, list(model.parameters()))
        norm = torch.sqrt(sum((g**2).sum() for g in result))  # type: ignore[arg-type]
        for part, g in zip(total, result, strict=True):
            part += g / norm.clamp(min=1.0)
    return total


def train(
    optimizer: Any = torch.optim.SGD,
    *,
    sigma: float = SIGMA,
    patience: str = "",
    rate: str = "",
    kept: str = "",
    divided: bool = False,
    **options: Any,
) -> Any:
    """Return a program that trains with DP-SGD on full batches; options make it wrong."""

    def program(d: Any, rng: Any) -> Any:
        x, model = _tensor(d), nn.Linear(2, 1)
        with torch.no_grad():
            model.weight.fill_(0.3)
            model.bias.zero_()
        inner = optimizer(model.parameters(), lr=0.1, **options)
        losses, average = [], torch.zeros(1, 2)
        for _ in range(STEPS):
            sums = _clipped(model, x)
            average.mul_(0.9).add_(sums[0], alpha=0.1)
            for p, g in zip(model.parameters(), sums, strict=True):
                p.grad = (g + sigma * torch.randn_like(g)) / (max(len(x), 1) if divided else 4)
            with torch.no_grad():
                losses.append(float((model(x[:, :2]) - x[:, 2:]).pow(2).sum()))
            if rate:
                inner.param_groups[0]["lr"] = 0.1 / (1 + losses[-1])
            inner.step()
            if patience and len(losses) > 1 and losses[-1] > losses[-2]:
                break
        result = {name: value.detach().clone() for name, value in model.state_dict().items()}
        return (
            {"model": result, "losses": losses}
            if kept == "losses"
            else {"model": result, "average": average}
            if kept
            else result
        )

    return program


def _histogram(d: Any, rng: Any) -> Any:
    x = _tensor(d)[:, 0]
    return torch.histc(x, 4, -1, 1) + torch.normal(0.0, 2.0, (4,))


SUMS = {
    "torch: sum": lambda d, r: _tensor(d).sum(0) + torch.randn(3),
    "torch: sum in place": lambda d, r: _tensor(d).sum(0).add_(torch.empty(3).normal_()),
    "torch: sum, then numpy": lambda d, r: (_tensor(d).sum(0) + torch.randn(3)).numpy() * 2,
    "torch: sum, then a list": lambda d, r: (_tensor(d).sum(0) + torch.randn(3)).tolist(),
    "torch: sum, then a norm": lambda d, r: float((_tensor(d).sum(0) + torch.randn(3)).norm()),
    "torch: second moments": lambda d, r: (lambda x: x.T @ x + torch.randn(3, 3))(_tensor(d)),
    "torch: histogram": _histogram,
    "torch: noise of numpy": lambda d, r: _tensor(d).sum(0).numpy() + r.normal(0, 1, 3),
    "torch: descent": train(),
    "torch: descent with momentum": train(momentum=0.9),
    "torch: descent with Adam": train(torch.optim.Adam),
    "torch: descent with foreach": train(torch.optim.AdamW, foreach=True),
}
WRONG = {
    "torch: half the noise": lambda d, r: _tensor(d).sum(0) + 0.5 * torch.randn(3),
    "torch: noise centred": lambda d, r: (lambda z: _tensor(d).sum(0) + z - z.mean())(torch.randn(3)),
    "torch: noise beside": lambda d, r: (lambda z: [_tensor(d).sum(0) + z, z])(torch.randn(3)),
    "torch: descent at half the noise": train(sigma=SIGMA / 2),
    "torch: losses returned": train(kept="losses"),
    "torch: average of raw gradients returned": train(kept="average"),
    "torch: rate by the raw loss": train(rate="loss"),
    "torch: divided by the private count": train(divided=True),
}
QUESTIONED = {
    "torch: early stopping by the raw loss": train(patience="loss"),
    "torch: mean by the private count": lambda d, r: (_tensor(d).sum(0) + torch.randn(3)) / max(len(d), 1),
}
PROGRAMS = [
    *right(SUMS, data="table", epsilon=None, mu=1.0),
    *[Program(name=name, run=run, data="table", epsilon=None, mu=1.0, expect=REFUTED) for name, run in WRONG.items()],
    *[Program(name=name, run=run, data="table", epsilon=None, mu=1.0, expect="not proved") for name, run in QUESTIONED.items()],
]
