"""Adaptive composition of exponential mechanisms, against closed forms, slow twins and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from audit.stats.curves import bounded_range, renyi
from tests.marks import slow_rows


def likely(epsilon: float, top: float) -> float:
    """P-mass of the loss `top` in the pair with losses `top` and `top - epsilon`."""
    return math.exp(top) * math.expm1(epsilon - top) / math.expm1(epsilon)


def worst_delta(budget: float, epsilon: float, count: int, grid: int = 60) -> float:
    """The recursion itself, over a grid of pairs, without any of the module's short cuts: a strategy, so from below."""
    if count == 0:
        return max(0.0, -math.expm1(budget))
    best = 0.0
    for top in np.linspace(0, epsilon, grid):
        p = likely(epsilon, float(top))
        high = worst_delta(budget - top, epsilon, count - 1, grid) if p > 0 else 0.0
        low = worst_delta(budget - top + epsilon, epsilon, count - 1, grid) if p < 1 else 0.0
        best = max(best, p * high + (1 - p) * low)
    return best


def bracket(epsilon: float, count: int, delta: float, *, work: float = 1e8) -> tuple[float, float]:
    reach = min(count * epsilon, renyi.zcdp_epsilon(count * epsilon**2 / 8, delta))
    return bounded_range.epsilon_bracket(epsilon, count, delta, reach=reach, work=work)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_one_mechanism_by_maximising_over_its_pair(epsilon: float, delta: float) -> None:
    def minus_epsilon(top: float) -> float:
        p = likely(epsilon, top)
        return -(top + math.log1p(-delta / p)) if delta < p else 0.0

    best = -float(
        minimize_scalar(minus_epsilon, bounds=(0, epsilon * (1 - 1e-12)), method="bounded", options={"xatol": 1e-13}).fun
    )
    low, high = bracket(epsilon, 1, delta)
    assert low <= best * (1 + 1e-9) + 1e-12 and best <= high * (1 + 1e-9)
    assert high - low < 1e-3 * epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "count"), slow_rows([(1.0, 2), (0.5, 3), (2.0, 2)], [(0.5, 3)]))
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_upper_end_is_above_and_the_lower_below_a_slow_twin(epsilon: float, count: int, share: float) -> None:
    budget = share * count * epsilon
    delta = worst_delta(budget, epsilon, count, 40 if count == 2 else 24)
    low, high = bracket(epsilon, count, delta)
    assert high >= budget * (1 - 1e-9)  # the twin is a strategy: at least so much is lost
    assert low <= budget + 0.02 * epsilon  # and a nearly best one
    assert high - low < 1e-3 * high + 1e-6


@pytest.mark.slow
@given(epsilon=st.floats(0.05, 2), count=st.integers(1, 12), log_delta=st.floats(-20, -3))
@settings(max_examples=12, deadline=None)
def test_between_one_fixed_pair_and_what_contains_it(epsilon: float, count: int, log_delta: float) -> None:
    delta = math.exp(log_delta)
    low, high = bracket(epsilon, count, delta, work=1e6)
    assert bounded_range.fixed_epsilon(epsilon, count, delta) <= low <= high
    assert high <= count * epsilon * (1 + 1e-12) and high <= renyi.zcdp_epsilon(count * epsilon**2 / 8, delta) * (1 + 1e-12)
    assert high <= bracket(epsilon, count + 1, delta, work=1e6)[1] * (1 + 1e-2)


@pytest.mark.slow
def test_brackets_are_narrow_where_the_divergence_is_seven_per_cent_off() -> None:
    low, high = bracket(1.0, 100, 1e-6, work=1e7)
    assert 0 < high - low < 2e-3 * high
    assert renyi.zcdp_epsilon(100 / 8, 1e-6) > 1.07 * high


def test_a_fixed_pair_by_simulation() -> None:
    epsilon, count, top = 0.5, 30, 0.27
    generator = np.random.Generator(np.random.PCG64(3))
    ups = generator.binomial(count, likely(epsilon, top), 400_000)
    losses = count * top - (count - ups) * epsilon
    floor = bounded_range.fixed_epsilon(epsilon, count, 0.02)
    gains = np.maximum(0.0, -np.expm1(floor - losses))
    assert float(gains.mean()) <= 0.02 + 5 * float(gains.std()) / math.sqrt(len(gains))


@pytest.mark.slow
def test_many_mechanisms_have_a_lower_end_too() -> None:
    floor = bounded_range.fixed_epsilon(0.01, 100_000, 1e-6)
    assert 0.9 * renyi.zcdp_epsilon(100_000 * 1e-4 / 8, 1e-6) < floor
