"""Defects that are planted in Opacus' optimisers, models and losses: each is found by the check that names it."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from audit.step_checks.run import check_optimizer
from tests.step_checks import test_opacus_matrix as matrix

opacus = pytest.importorskip("opacus", reason="needs the extra 'opacus'")
pytestmark = pytest.mark.slow
Change = Callable[[Any, Any], None]


def _grads(optimizer: Any) -> list[Tensor]:
    return [value.grad_sample for value in optimizer.params]


def _clips_by(norms: Callable[[list[Tensor]], Tensor], factor: Callable[[Any, Tensor], Tensor] | None = None) -> Change:
    """Return a change that clips by other norms, or by another factor of the clip norm and the norms."""

    def clip(optimizer: Any) -> None:
        values = norms(_grads(optimizer))
        limit = optimizer.max_grad_norm
        share = factor(limit, values) if factor else (limit / (values + 1e-6)).clamp(max=1.0)
        for value, rows in zip(optimizer.params, _grads(optimizer), strict=True):
            value.summed_grad = torch.tensordot(share, rows, 1)

    return lambda model, optimizer: setattr(optimizer, "clip_and_accumulate", MethodType(clip, optimizer))


def _norms(rows: list[Tensor]) -> Tensor:
    return torch.sqrt(torch.stack([part.flatten(1).square().sum(1) for part in rows]).sum(0))


def _by_the_median(limit: float, norms: Tensor) -> Tensor:
    target = min(float(norms.median()), 10.0) if len(norms) else limit
    return (target / (norms + 1e-6)).clamp(max=1.0)


def _without_the_longest(limit: float, norms: Tensor) -> Tensor:
    return (limit / (norms + 1e-6)).clamp(max=1.0) * (norms < norms.max() if len(norms) > 2 else norms >= 0)


def _adds(noise: Callable[[Any, Tensor, Tensor], Tensor]) -> Change:
    """Return a change of the noise: a function of the optimiser, a parameter and the noise that is right."""

    def add(optimizer: Any) -> None:
        deviation = optimizer.noise_multiplier * optimizer.max_grad_norm
        for value in optimizer.params:
            right = deviation * torch.randn(value.shape, generator=optimizer.generator)
            value.grad = (value.summed_grad + noise(optimizer, value, right)).view_as(value)

    return lambda model, optimizer: setattr(optimizer, "add_noise", MethodType(add, optimizer))


def _of_a_constant_seed(optimizer: Any, value: Tensor, noise: Tensor) -> Tensor:
    deviation = optimizer.noise_multiplier * optimizer.max_grad_norm
    return deviation * torch.randn(value.shape, generator=torch.Generator().manual_seed(11))  # type: ignore[no-any-return]


def _scales_by_the_raw_sum(model: Any, optimizer: Any) -> None:
    scale = optimizer.scale_grad

    def scaled(self: Any) -> None:
        scale()
        raw = sum(float(rows.sum()) for rows in _grads(self))
        for value in self.params:
            value.grad *= 1 / (1 + abs(raw))

    optimizer.scale_grad = MethodType(scaled, optimizer)


def _clips_ghosts_at_three_times(model: Any, optimizer: Any) -> None:
    def share(self: Any) -> Tensor:
        result: Tensor = (3 * self.max_grad_norm / (self.get_norm_sample() + 1e-6)).clamp(max=1.0)
        return result

    model.get_clipping_coef = MethodType(share, model)


def _nothing(model: Any, optimizer: Any) -> None:
    """The defect is in the model or the loss."""


class Remembers(nn.Module):
    """A model that keeps a running mean of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = matrix.perceptron()
        self.register_buffer("mean", torch.zeros(36))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and len(x):
            self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        result: Tensor = self.inner(x)
        return result


class Viewed(nn.Module):
    """A model with a view, as tutorials write it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = matrix.perceptron()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x.view(x.size(0), -1, 2).flatten(1))
        return result


class Mixes(nn.Module):
    """A model that mixes each record with the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = matrix.perceptron()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(0.7 * x + 0.3 * x.roll(1, 0))
        return result


def _by_counts_of_classes(outputs: Tensor, labels: Tensor) -> Tensor:
    weights = len(labels) / (3 * torch.bincount(labels, minlength=3).clamp(min=1)).float()
    return (weights[labels] * functional.cross_entropy(outputs, labels, reduction="none")).mean()


PLANTED: dict[str, tuple[Any, Change, str, dict[str, Any]]] = {
    "no noise in one tensor": (
        matrix.LowRank,
        _adds(lambda optimizer, value, noise: noise * (value is not optimizer.params[-1])),
        "noise.missing",
        {},
    ),
    "noise over the batch": (
        matrix.Pictures,
        _adds(lambda optimizer, value, noise: noise / max(1, len(value.grad_sample))),
        "replay.loss",
        {},
    ),
    "noise of a constant seed": (matrix.Sentences, _adds(_of_a_constant_seed), "replay.loss", {}),
    "noise for words that occur": (
        matrix.Reviews,
        _adds(lambda optimizer, value, noise: noise * (value.summed_grad.abs().sum(-1, keepdim=True) > 0)),
        "replay.loss",
        {"grad_sample_mode": "functorch"},
    ),
    "biases left out of the norm": (
        matrix.Pictures,
        _clips_by(lambda rows: _norms([part for part in rows if part.ndim > 2])),
        "replay.loss",
        {},
    ),
    "one layer left out of the norm": (matrix.Shared, _clips_by(lambda rows: _norms(rows[2:])), "replay.loss", {}),
    "clip norm of the batch": (matrix.perceptron, _clips_by(_norms, _by_the_median), "replay.loss", {}),
    "longest gradient left out": (
        matrix.perceptron,
        _clips_by(_norms, _without_the_longest),
        "sum.additive",
        {"grad_sample_mode": "ew"},
    ),
    "ghosts at three times C": (
        matrix.perceptron,
        _clips_ghosts_at_three_times,
        "replay.loss",
        {"grad_sample_mode": "ghost"},
    ),
    "a model that clips at twice the optimiser's C": (
        matrix.perceptron,
        lambda model, optimizer: setattr(model, "max_grad_norm", 2 * model.max_grad_norm),
        "clip.add",
        {"grad_sample_mode": "ghost"},
    ),
    "a model that takes no empty batch, with centred outputs": (
        Viewed,
        _nothing,
        "sum.additive",
        {"criterion": lambda outputs, labels: functional.cross_entropy(outputs - outputs.mean(0), labels)},
    ),
    "rate by the raw sum": (matrix.Pictures, _scales_by_the_raw_sum, "replay.loss", {}),
    "running mean of inputs": (Remembers, _nothing, "replay.state", {}),
    "mixed records": (Mixes, _nothing, "sum.additive", {}),
    "weights by counts of classes": (matrix.perceptron, _nothing, "sum.additive", {"criterion": _by_counts_of_classes}),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, change, check, private = PLANTED[name]

    def changed(wrapped: Any, optimizer: Any, *rest: Any, **claim: Any) -> Any:
        change(wrapped, optimizer)
        return check_optimizer(wrapped, optimizer, *rest, **claim)

    monkeypatch.setattr(matrix, "check_optimizer", changed)
    assert check in {finding.check for finding in matrix.checked(model, **private).failures}
