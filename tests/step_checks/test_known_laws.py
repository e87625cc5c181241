"""Steps whose noise is uneven or in other units than sigma C, right and wrong: replay knows the law, whatever it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from audit.step_checks.findings import StepReport
from audit.step_checks.run import check_step

Rows = dict[str, Tensor]
NOISE, CLIP_NORM, DIVISOR = 1.1, 0.5, 16.0
PARAMETERS = {"w": torch.linspace(-0.5, 0.5, 12).reshape(3, 4), "b": torch.zeros(3)}
SHARES = {"w": 0.8, "b": 0.3}
TOTAL = sum(SHARES.values())
BUDGETS = {"w": 0.75, "b": 0.25}
STRETCH = torch.linspace(0.2, 4.0, 15)
MIX = torch.eye(15) + 0.6 * torch.diag(torch.ones(14), 1)


def gradients(params: Any, x: Tensor, y: Tensor) -> Rows:
    """Return the gradients of cross entropy, `(n, ...)`; those that are not finite are 0."""
    errors = torch.softmax(x @ params["w"].T + params["b"], 1) - (y[:, None] == torch.arange(3)).float()
    rows = {"w": errors[:, :, None] * x[:, None, :], "b": errors}
    return {name: torch.where(torch.isfinite(value), value, 0.0) for name, value in rows.items()}


def clipped(rows: Rows, c: float) -> Rows:
    """Return the sum of gradients, each clipped as a whole."""
    norms = torch.sqrt(sum(value.flatten(1).square().sum(1) for value in rows.values()))
    factors = (c / norms.clamp(min=1e-30)).clamp(max=1.0)
    return {name: torch.tensordot(factors, value, 1) for name, value in rows.items()}


def by_layer(norm: Callable[[float, str], float], deviation: Callable[[float, float, str], float]) -> Any:
    """Return a step with a clip norm (of C and name) and a deviation (of sigma, C and name) for each layer."""

    def released(rows: Rows, s: float, c: float, generator: Any) -> Rows:
        sums = {name: clipped({name: value}, norm(c, name))[name] for name, value in rows.items()}
        return {
            name: value + deviation(s, c, name) * torch.randn(value.shape, generator=generator) for name, value in sums.items()
        }

    return released


def in_units(unit: Callable[[float], float], deviation: Callable[[float, float], float]) -> Any:
    """Return a step that divides the clipped sum by a unit before it adds noise of a deviation."""

    def released(rows: Rows, s: float, c: float, generator: Any) -> Rows:
        sums = {name: value / unit(c) for name, value in clipped(rows, c).items()}
        return {name: value + deviation(s, c) * torch.randn(value.shape, generator=generator) for name, value in sums.items()}

    return released


def mixed(before: Tensor, matrix: Tensor) -> Any:
    """Return a step that clips by the norm of `before` times the gradient and has noise `matrix` times a normal vector."""

    def released(rows: Rows, s: float, c: float, generator: Any) -> Rows:
        flat = torch.cat([rows["w"].flatten(1), rows["b"]], 1)
        factors = (c / (flat @ before.T).norm(dim=1).clamp(min=1e-30)).clamp(max=1.0)
        total = factors @ flat + s * c * (matrix @ torch.randn(15, generator=generator))
        return {"w": total[:12].reshape(3, 4), "b": total[12:]}

    return released


def normalised(rows: Rows, s: float, c: float, generator: Any) -> Rows:
    """Automatic clipping (Bu et al. 2023): a record moves the sum by 1 at most, whatever C is."""
    norms = torch.sqrt(sum(value.flatten(1).square().sum(1) for value in rows.values()))
    sums = {name: torch.tensordot(1 / (norms + 0.01), value, 1) for name, value in rows.items()}
    return {name: value + s * torch.randn(value.shape, generator=generator) for name, value in sums.items()}


def smoothed(inner: Any) -> Any:
    """Return a step that smooths its noisy sum."""

    def released(rows: Rows, s: float, c: float, generator: Any) -> Rows:
        sums = inner(rows, s, c, generator)
        return {name: (0.5 * v.flatten() + 0.5 * v.flatten().roll(1)).reshape(v.shape) for name, v in sums.items()}

    return released


def share(c: float, name: str) -> float:
    return c * SHARES[name]


RIGHT: dict[str, Any] = {
    "noise by the root of a layer's share": by_layer(share, lambda s, c, name: s * c * (SHARES[name] * TOTAL) ** 0.5),
    "noise by a layer's share": by_layer(share, lambda s, c, name: s * 2**0.5 * share(c, name)),
    "a part of the budget for each layer": by_layer(share, lambda s, c, name: s * share(c, name) / BUDGETS[name] ** 0.5),
    "layers rescaled to norm 1": by_layer(lambda c, name: 1.0, lambda s, c, name: s / BUDGETS[name] ** 0.5),
    "more noise in one layer": by_layer(share, lambda s, c, name: s * c * (5.0 if name == "w" else 0.5)),
    "rescaled to norm 1": in_units(lambda c: c, lambda s, c: s),
    "rescaled to norm 2": in_units(lambda c: c / 2, lambda s, c: 2 * s),
    "normalised gradients": normalised,
    "stretched by a public vector": mixed(torch.diag(1 / STRETCH), torch.diag(STRETCH)),
    "mixed by a public matrix": mixed(torch.linalg.inv(MIX), MIX),
    "smoothed after uneven noise": smoothed(by_layer(share, lambda s, c, name: s * 2**0.5 * share(c, name))),
    "smoothed after rescaling": smoothed(in_units(lambda c: c, lambda s, c: s)),
}
WRONG: dict[str, Any] = {
    "each layer hidden alone": by_layer(share, lambda s, c, name: s * share(c, name)),
    "a layer with little noise": by_layer(share, lambda s, c, name: s * share(c, name) * (2.0 if name == "w" else 0.7)),
    "a layer without noise": by_layer(share, lambda s, c, name: 2 * s * c if name == "w" else 0.0),
    "a layer clipped at C": by_layer(lambda c, name: c, lambda s, c, name: s * 2**0.5 * share(c, name)),
    "budgets above 1": by_layer(share, lambda s, c, name: s * share(c, name) / (1.3 * BUDGETS[name]) ** 0.5),
    "rescaled by half of C": in_units(lambda c: c / 2, lambda s, c: s),
    "rescaled by C at most 1, noise sigma C": in_units(lambda c: min(c, 1.0), lambda s, c: s * c),
    "noise of another clip norm": in_units(lambda c: 1.0, lambda s, c: s * 0.5 * min(c, CLIP_NORM) / CLIP_NORM),
    "stretched the wrong way": mixed(torch.diag(STRETCH), torch.diag(STRETCH)),
    "mixed without its clip": mixed(torch.eye(15), MIX),
    "smoothed after little noise": smoothed(by_layer(share, lambda s, c, name: s * share(c, name))),
    "smoothed after wrong rescaling": smoothed(in_units(lambda c: c / 2, lambda s, c: s)),
}


def check(release: Any, c: float = CLIP_NORM) -> StepReport:
    """Return the report on a step of these sums."""

    def step(params: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        sums = release(gradients(params, *batch), noise_multiplier, clip_norm, generator)
        return {name: params[name] - sums[name] / divisor for name in params}

    stream = np.random.default_rng(0)
    sample = stream.normal(size=(10, 4)).astype(np.float32), np.arange(10) % 3
    return check_step(step, PARAMETERS, sample, noise_multiplier=NOISE, clip_norm=c, divisor=DIVISOR)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in RIGHT])
def test_a_right_step_in_units_of_its_own_is_accused_of_nothing(name: str) -> None:
    report = check(RIGHT[name])
    assert report.failures == (), str(report)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if "wrong" in name or "little" in name else pytest.mark.slow) for name in WRONG]
)
def test_a_wrong_step_in_units_of_its_own_is_found(name: str) -> None:
    assert check(WRONG[name]).failures
