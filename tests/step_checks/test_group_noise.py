"""Groups of parameters with their own noise: the claim is about the Mahalanobis norm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from audit.core.errors import ConfigError
from audit.step_checks.findings import StepReport
from audit.step_checks.run import check_step
from audit.zoo._reference import DpSgdStep, Tensors, small_parameters, weighted_sum

SHARES = {"hidden.weight": 0.8, "hidden.bias": 0.3, "head.weight": 0.5, "head.bias": 0.2}
TOTAL = sum(SHARES.values())
RIGHT = {name: float(np.sqrt(share * TOTAL)) for name, share in SHARES.items()}  # sum of (share / deviation)^2 is 1
NOISE, CLIP_NORM, DIVISOR = 1.3, 0.7, 16.0


@dataclass(frozen=True, eq=False)
class GroupStep(DpSgdStep):
    """Each tensor is clipped to its share of C and has its own noise deviation, in units of sigma C."""

    deviations: dict[str, float]

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        sums = {}
        for name, gradient in self.record_gradients(params, inputs, labels).items():
            group = {name: gradient}
            sums |= weighted_sum(group, self.factors(group, clip_norm * SHARES[name]))
        return sums

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        return {name: value * self.deviations[name] for name, value in noise.items()}


def check(actual: dict[str, float], claimed: dict[str, float] | None) -> StepReport:
    stream = np.random.default_rng(0)
    sample = (stream.normal(size=(16, 6)).astype(np.float32), stream.integers(3, size=16))
    deviations = None if claimed is None else {name: value * NOISE * CLIP_NORM for name, value in claimed.items()}
    return check_step(
        GroupStep(actual),
        small_parameters(),
        sample,
        noise_multiplier=NOISE,
        clip_norm=CLIP_NORM,
        divisor=DIVISOR,
        deviations=deviations,
    )


def failures(report: StepReport) -> set[str]:
    return {finding.check for finding in report.failures}


@pytest.mark.slow
def test_noise_in_proportion_to_what_each_group_moves_passes() -> None:
    report = check(RIGHT, RIGHT)
    assert not failures(report), str(report)


@pytest.mark.slow
def test_without_a_claim_of_deviations_replay_finds_them() -> None:
    assert not failures(check(RIGHT, None))
    assert {"replay.loss", "noise.variance"} <= failures(check(SHARES, None))


@pytest.mark.slow
def test_deviations_that_hide_each_group_alone_do_not_hide_all() -> None:
    """Each group has its own noise clip norm: together a record moves by twice what one release hides."""
    report = check(SHARES, SHARES)
    assert "clip.add" in failures(report) and "noise.variance" not in failures(report)


@pytest.mark.slow
def test_a_group_with_less_noise_than_claimed_is_named() -> None:
    report = check({**RIGHT, "head.bias": 0.5 * RIGHT["head.bias"]}, RIGHT)
    assert next(finding for finding in report.failures if finding.check == "noise.variance").message.count("head.bias") == 1


def test_deviations_belong_to_tensors() -> None:
    with pytest.raises(ConfigError, match="deviations are given for"):
        check(RIGHT, {"head.bias": 1.0})
