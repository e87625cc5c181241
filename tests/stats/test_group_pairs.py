"""Groups of records: pairs against closed forms, against the trade-off curve applied again and again, and simulation."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.stats.curves.group_pairs import approximate_group, subsampled_gaussian_group
from audit.stats.curves.loss_pairs import Direction, LossPair, subsampled_gaussian
from audit.stats.curves.pld import epsilon_bracket
from audit.stats.curves.tradeoff import gdp_epsilon


def group(noise: float, rate: float, size: int, direction: Direction, log_tail: float) -> LossPair:
    return subsampled_gaussian_group(noise, rate, size, direction, log_tail=log_tail)


def single(noise: float, rate: float, direction: Direction, log_tail: float) -> LossPair:
    return subsampled_gaussian(noise, rate, direction, log_tail=log_tail)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.05, 100), (0.6, 0.3, 5)])
def test_a_group_of_one_is_one_record(noise: float, rate: float, steps: int) -> None:
    alone = epsilon_bracket([(partial(single, noise, rate), steps)], 1e-6)
    grouped = epsilon_bracket([(partial(group, noise, rate, 1), steps)], 1e-6)
    assert max(alone[0], grouped[0]) <= min(alone[1], grouped[1])
    assert grouped[1] - grouped[0] < 1e-3 * grouped[1]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", [2, 5])
def test_a_group_that_is_always_there_moves_the_sum_as_far(size: int) -> None:
    low, high = epsilon_bracket([(partial(group, 3.0, 1.0, size), 4)], 1e-6)
    true = gdp_epsilon(size * 2 / 3.0, 1e-6)
    assert low <= true * (1 + 1e-9) and true <= high * (1 + 1e-9) and high - low < 2e-3 * high


@pytest.mark.parametrize("size", [2, 4])
def test_a_sampled_group_by_simulation(size: int) -> None:
    noise, rate, steps, delta = 1.2, 0.2, 6, 0.03
    low, high = epsilon_bracket([(partial(group, noise, rate, size), steps)], delta, directions=("remove",))
    generator = np.random.Generator(np.random.PCG64(size))
    outputs = generator.normal(0, noise, (60_000, steps)) + generator.binomial(size, rate, (60_000, steps))
    weights = [math.comb(size, k) * rate**k * (1 - rate) ** (size - k) for k in range(size + 1)]
    ratio = sum(weight * np.exp((2 * k * outputs - k * k) / (2 * noise**2)) for k, weight in enumerate(weights))
    losses = np.log(ratio).sum(axis=1)
    for end, sign in ((low, 1), (high, -1)):
        gains = np.maximum(0.0, -np.expm1(end - losses))
        assert sign * (float(gains.mean()) - delta) >= -5 * float(gains.std()) / math.sqrt(len(gains))


@pytest.mark.slow
def test_a_group_costs_more_than_one_and_at_most_what_the_lemma_says() -> None:
    item = epsilon_bracket([(partial(group, 1.0, 0.01, 1), 500)], 1e-5)
    three = epsilon_bracket([(partial(group, 1.0, 0.01, 3), 500)], 1e-5)
    smaller = 1e-5 / (3 * math.exp(2 * item[1]))  # a group's delta: a sum of three, the last of them grown
    lemma = 3 * epsilon_bracket([(partial(group, 1.0, 0.01, 1), 500)], smaller)[1]
    assert item[1] < three[0] and three[1] < lemma


def power(size: float, epsilon: float, delta: float) -> float:
    """The most power of a test of that size against an (epsilon, delta)-DP mechanism."""
    return min(1.0, delta + math.exp(epsilon) * size, 1 - math.exp(-epsilon) * (1 - delta - size))


@pytest.mark.slow
@given(epsilon=st.floats(0.01, 2), delta=st.sampled_from([0.0, 1e-6, 0.02]), size=st.integers(1, 6), budget=st.floats(0, 6))
@settings(max_examples=60, deadline=None)
def test_approximate_groups_are_the_curve_applied_again_and_again(
    epsilon: float, delta: float, size: int, budget: float
) -> None:
    sizes = np.linspace(0, 1, 4001)
    powers = sizes.copy()
    for _ in range(size):
        powers = np.array([power(item, epsilon, delta) for item in powers])
    by_curve = float(np.max(powers - math.exp(budget) * sizes))
    losses, masses = (np.array(item) for item in zip(*approximate_group(epsilon, delta, size).atoms, strict=True))
    by_pair = float(masses @ np.where(np.isinf(losses), 1.0, np.maximum(0.0, -np.expm1(budget - losses))))
    assert by_pair >= by_curve - 1e-9  # the curve was looked at on a grid only
    assert by_pair <= by_curve + math.exp(budget) / 4000 + 1e-9
    assert masses.sum() == pytest.approx(1, abs=1e-9)


def test_replacing_a_sampled_group_has_no_proof_here() -> None:
    with pytest.raises(ValueError, match="replace"):
        subsampled_gaussian_group(1.0, 0.1, 2, "replace")
