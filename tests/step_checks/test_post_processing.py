"""What follows the noise accuses no step; what only looks like it is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from audit.step_checks.findings import PropertyStatus, StepReport
from audit.step_checks.noisy_sum import NoisySumStep, NotFollowedError
from audit.step_checks.probes._state import State
from audit.step_checks.probes.additivity import Additivity
from audit.step_checks.probes.noise import NoiseLaw
from audit.step_checks.probes.sensitivity import Sensitivity
from audit.step_checks.run import check_step
from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import FunctionStep, Setting

PARAMETERS = {"w": torch.linspace(-0.5, 0.5, 12).reshape(3, 4), "b": torch.zeros(3)}
CLAIM = Setting(noise_multiplier=1.1, clip_norm=1.0, divisor=16.0)


def sample() -> tuple[Any, Any]:
    stream = np.random.default_rng(0)
    return stream.normal(size=(10, 4)).astype(np.float32), np.arange(10) % 3


def gradients(params: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Return the gradients of cross entropy, `(n, ...)`; those that are not finite are 0."""
    errors = torch.softmax(x @ params["w"].T + params["b"], 1) - (y[:, None] == torch.arange(3)).float()
    rows = {"w": errors[:, :, None] * x[:, None, :], "b": errors}
    return {name: torch.where(torch.isfinite(value), value, 0.0) for name, value in rows.items()}


def clipped(params: Any, batch: Any, clip_norm: float) -> dict[str, Tensor]:
    rows = gradients(params, *batch)
    norms = torch.sqrt(sum(value.flatten(1).square().sum(1) for value in rows.values()))
    factors = (clip_norm / norms.clamp(min=1e-30)).clamp(max=1.0)
    return {name: torch.tensordot(factors, value, 1) for name, value in rows.items()}


def after(process: Callable[[Tensor], Tensor], before: Callable[[Tensor], Tensor] = lambda noise: noise) -> Any:
    """Return a step that works on its noisy sum, and on the noise before it is added."""

    def step(params: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        total = clipped(params, batch, clip_norm)
        noise = {
            name: before(noise_multiplier * clip_norm * torch.randn(value.shape, generator=generator))
            for name, value in total.items()
        }
        return {name: params[name] - process(total[name] + noise[name]) / divisor for name in total}

    return step


def smooth(value: Tensor) -> Tensor:
    return (0.5 * value.flatten() + 0.5 * value.flatten().roll(1)).reshape(value.shape)


def check(step: Any) -> StepReport:
    return check_step(step, PARAMETERS, sample(), noise_multiplier=1.1, clip_norm=1.0, divisor=16.0)


def read(step: Any) -> dict[str, Any]:
    """Return the noisy sum of five records, by the noise of eight."""
    arrays = sample()
    inner = NoisySumStep(
        step=FunctionStep(function=step, params=PARAMETERS),
        reference=tuple(a[:8] for a in arrays),
        claimed=CLAIM,
        seed=0,
        sizes=[12, 3],
    )
    return inner.release(tuple(array[:5] for array in arrays), CLAIM, 3)


@pytest.mark.parametrize("process", [smooth, torch.sign, lambda value: value / value.norm(), lambda value: value.clamp(-1, 1)])
def test_the_noisy_sum_is_read_where_the_noise_joins_it(process: Any) -> None:
    plain, processed = (read(after(part)) for part in (lambda value: value, process))
    assert plain.keys() == processed.keys()
    assert all(np.allclose(plain[name], processed[name]) for name in plain)


@pytest.mark.parametrize("before", [smooth, lambda noise: noise - noise.mean(), lambda noise: noise.clamp(-1, 1)])
def test_noise_that_was_changed_before_the_sum_is_not_read(before: Any) -> None:
    with pytest.raises(NotFollowedError):
        read(after(lambda value: value, before))


def test_a_result_with_more_of_the_records_than_the_noisy_sum_is_not_read() -> None:
    right = after(smooth)

    def leaking(params: Any, batch: Any, generator: Any, **setting: Any) -> Any:
        return {name: value + 1e-3 * len(batch[0]) for name, value in right(params, batch, generator, **setting).items()}

    with pytest.raises(NotFollowedError, match="parameter"):
        read(leaking)


@pytest.mark.slow
def test_smoothing_after_the_noise_is_accused_of_nothing() -> None:
    report = check(after(smooth))
    assert report.failures == ()
    assert "step.processing" in {finding.check for finding in report.findings}


@pytest.mark.slow
def test_smoothing_before_the_sum_is_accused() -> None:
    assert "noise.variance" in {finding.check for finding in check(after(lambda value: value, smooth)).failures}


def probe(plugin: Any, step: Any) -> dict[str, Any]:
    bench = StepUnderTest(step=FunctionStep(function=step, params=PARAMETERS), sample=sample(), claimed=CLAIM)
    return {finding.check: finding for finding in plugin().run(bench)}


def test_a_step_that_removes_duplicates_is_additive() -> None:
    right = after(lambda value: value)

    def once(params: Any, batch: Any, generator: Any, **setting: Any) -> Any:
        x, y = batch
        _, index = np.unique(np.column_stack([x.numpy(), y.numpy()]), axis=0, return_index=True)
        unique = torch.as_tensor(np.sort(index))
        return right(params, (x[unique], y[unique]), generator, **setting)

    assert "count once" in probe(Additivity, once)["sum.additive"].message


def test_a_sum_over_its_norm_has_none_without_noise_and_is_no_refusal_of_empty_batches() -> None:
    result = probe(State, after(lambda value: value / value.norm()))["step.empty"]
    assert result.status is PropertyStatus.PASSED and "not finite" in result.message


class Memory:
    """A step that keeps the clipped-off part, or an average, for later sums."""

    def __init__(self, share: float | None) -> None:
        self.share, self.kept = share, {name: torch.zeros_like(value) for name, value in PARAMETERS.items()}

    def __call__(
        self, params: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float
    ) -> Any:
        rows = {name: value.sum(0) for name, value in gradients(params, *batch).items()}
        total = {name: rows[name] + self.kept[name] * (1.0 if self.share is None else self.share) for name in rows}
        norm = torch.sqrt(sum(value.square().sum() for value in total.values()))
        factor = float((clip_norm / norm.clamp(min=1e-30)).clamp(max=1.0))
        self.kept = {name: value * (1 - factor) if self.share is None else value for name, value in total.items()}
        noise = {name: noise_multiplier * clip_norm * torch.randn(v.shape, generator=generator) for name, v in total.items()}
        return {name: params[name] - (total[name] * factor + noise[name]) / divisor for name in total}


@pytest.mark.parametrize(("share", "words"), [(None, "error feedback"), (0.9, "average or a momentum")])
def test_what_a_step_remembers_of_earlier_records_is_named(share: float | None, words: str) -> None:
    bench = StepUnderTest(step=FunctionStep(function=Memory(share), params=PARAMETERS), sample=sample(), claimed=CLAIM)
    Sensitivity().run(bench)  # whose records of infinite inputs are remembered for good
    assert words in {finding.check: finding.message for finding in State().run(bench)}["step.empty"]


@pytest.mark.slow
def test_a_discrete_gaussian_of_many_levels_is_named_and_not_accused() -> None:
    def discrete(params: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        grid, s = 4096, noise_multiplier * clip_norm * 4096
        levels = torch.arange(-9 * s - 1, 9 * s + 1, dtype=torch.float64).round()
        weights = torch.cumsum(torch.exp(-levels.square() / (2 * s**2)), 0)
        result = {}
        for name, value in clipped(params, batch, clip_norm).items():
            uniform = torch.rand(value.shape, generator=generator, dtype=torch.float64) * weights[-1]
            noise = levels[torch.searchsorted(weights, uniform)] if s else 0.0
            result[name] = params[name].double() - (torch.trunc(value.double() * grid) + noise) / grid / divisor
        return result

    found = probe(NoiseLaw, discrete)
    assert not [finding for finding in found.values() if finding.status is PropertyStatus.FAILED]
    assert "discrete" in found["noise.resolution"].message
