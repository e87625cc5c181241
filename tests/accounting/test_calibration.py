"""Calibrated noise never goes over the budget and wastes little of it; trajectories end at the claim."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit import plugins
from audit.accounting.calibration import calibrate_noise, trajectory
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import ConfigError
from audit.core.event_reading import noisy_steps, single_phase
from audit.core.events import Event, dp_sgd

ADD_REMOVE = Adjacency.ADD_REMOVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """An accountant of one line, with a floor and a staircase to make searches hard."""

    power: float = 1.0
    floor: float = 0.0
    stair: float = 0.0

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        noise, rate, steps = single_phase(mechanism)
        epsilon = steps * rate / noise**self.power
        if self.stair:
            epsilon = math.ceil(epsilon / self.stair) * self.stair
        return Claim(epsilon=max(epsilon, self.floor), delta=delta, adjacency=adjacency, source="formula")


@pytest.mark.slow
@given(target=st.floats(1e-3, 1e3), power=st.floats(0.3, 6), steps=st.integers(1, 10**6), rate=st.floats(1e-4, 1))
@settings(max_examples=200, deadline=None)
def test_never_above_the_budget_and_little_left(target: float, power: float, steps: int, rate: float) -> None:
    accountant = Formula(power=power)
    needed = (steps * rate / target) ** (1 / power)
    if not 0.02 < needed < 5e5:
        return
    result = calibrate_noise(accountant, target_epsilon=target, delta=1e-5, sample_rate=rate, steps=steps)
    epsilon = accountant.claim(result, delta=1e-5, adjacency=ADD_REMOVE).epsilon
    assert target * 0.9989 <= epsilon <= target


def test_a_staircase_stops_on_the_safe_side() -> None:
    accountant = Formula(stair=0.7)
    result = calibrate_noise(accountant, target_epsilon=2.0, delta=1e-5, sample_rate=0.1, steps=100)
    assert accountant.claim(result, delta=1e-5, adjacency=ADD_REMOVE).epsilon == pytest.approx(1.4)
    assert single_phase(result)[0] == pytest.approx(10 / 1.4, rel=1e-6)


def test_a_floor_above_the_target_is_an_error_that_says_so() -> None:
    with pytest.raises(ConfigError, match="floor"):
        calibrate_noise(Formula(floor=0.3), target_epsilon=0.1, delta=1e-5, sample_rate=0.1, steps=10)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "known"), [("rdp", 1.513), ("pld", 1.4148)])
def test_against_published_calibrations(kind: str, known: float) -> None:
    accountant = plugins.build("audit.accounting.accountants", {"kind": kind})
    result = calibrate_noise(accountant, target_epsilon=1.0, delta=1e-5, sample_rate=0.01, steps=1000)
    assert single_phase(result)[0] == pytest.approx(known, rel=2e-3)
    assert accountant.claim(result, delta=1e-5, adjacency=ADD_REMOVE).epsilon <= 1.0
    steps = noisy_steps(result)
    assert steps is not None and (steps.sample_rate, steps.steps, steps.clip_norm) == (0.01, 1000, 1.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_targets_that_make_no_sense(bad: float) -> None:
    with pytest.raises(ConfigError, match="target_epsilon"):
        calibrate_noise(Formula(), target_epsilon=bad, delta=1e-5, sample_rate=0.1, steps=10)


@pytest.mark.parametrize("target", [1e6, 1e12, 1e300])
def test_a_target_that_no_noise_reaches_is_an_error_that_names_the_limit(target: float) -> None:
    accountant = plugins.build("audit.accounting.accountants", {"kind": "rdp"})
    with pytest.raises(ConfigError, match=r"is more than noise_multiplier 0\.00781\d* costs.*the claim is [\d.e+]+ there"):
        calibrate_noise(accountant, target_epsilon=target, delta=1e-5, sample_rate=0.1, steps=10)


@pytest.mark.parametrize("points", [1, 7, 40])
def test_a_trajectory_rises_to_the_claim(points: int) -> None:
    accountant = plugins.build("audit.accounting.accountants", {"kind": "rdp"})
    mechanism = dp_sgd(noise_multiplier=1.1, clip_norm=1.0, sample_rate=0.1, steps=33)
    result = trajectory(accountant, mechanism, delta=1e-5, adjacency=ADD_REMOVE, points=points)
    full = accountant.claim(mechanism, delta=1e-5, adjacency=ADD_REMOVE)
    assert result.steps[-1] == 33 and result.epsilon[-1] == full.epsilon and result.accountant == full.source
    assert len(result.steps) == min(points, 33) == len(result.epsilon)
    assert list(result.epsilon) == sorted(result.epsilon)


def test_a_trajectory_of_no_steps() -> None:
    accountant = plugins.build("audit.accounting.accountants", {"kind": "rdp"})
    mechanism = dp_sgd(noise_multiplier=1.1, clip_norm=1.0, sample_rate=0.1, steps=0)
    result = trajectory(accountant, mechanism, delta=1e-5, adjacency=ADD_REMOVE)
    assert (result.steps, result.epsilon) == ((0,), (0.0,))
