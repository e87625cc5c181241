"""The tail of a rank sum is that of all draws, and under chance no smaller than it says."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import rankdata

from audit.stats.sign_test import lower_tail


@pytest.mark.parametrize("values", [np.arange(14.0), np.array([0.0] * 9 + [1.0] * 5), np.floor(np.arange(14.0) ** 1.2 / 3)])
@pytest.mark.parametrize("size", [3, 7, 11])
def test_the_tail_is_that_of_all_draws(values: np.ndarray, size: int) -> None:
    draws = np.array(list(combinations(range(14), size)))
    sums = rankdata(values)[draws].sum(axis=1)
    for place in (0, 5, 60, 200):
        index = np.argsort(sums, kind="stable")[min(place, len(sums) - 1)]
        included = np.isin(np.arange(14), draws[index])
        exact = float((sums <= sums[index] + 1e-9).mean())
        assert lower_tail(values, included) == pytest.approx(exact)


def test_one_value_says_nothing() -> None:
    assert lower_tail(np.zeros(9), np.arange(9) < 4) == 1.0


def test_a_group_apart_has_the_chance_of_one_draw() -> None:
    assert lower_tail(np.arange(20.0), np.arange(20) < 10) == pytest.approx(1 / 184756)


@pytest.mark.slow
def test_chance_alone_is_as_rare_as_it_says() -> None:
    random = np.random.default_rng(5)
    for values in (random.normal(size=300), np.floor(random.exponential(size=300)), np.arange(300) % 2.0):
        chances = np.array([lower_tail(values, random.permutation(300) < 90) for _ in range(1500)])
        for level in (0.003, 0.03, 0.3):
            assert (chances <= level).mean() <= level + 4 * np.sqrt(level * (1 - level) / 1500)


def count_sums(doubled_ranks: np.ndarray, size: int) -> np.ndarray:
    """The exact chance of each sum of doubled ranks, or a lower one, over all draws of a size: counted record by record."""
    counts = np.zeros((size + 1, int(np.sort(doubled_ranks)[-size:].sum()) + 1))
    counts[0, 0] = 1
    for rank in doubled_ranks:
        counts[1:, rank:] += counts[:-1, : counts.shape[1] - rank].copy()
    return np.cumsum(counts[size] / counts[size].sum())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("count", "size"), [(24, 12), (60, 30), (120, 60), (200, 30)])
@pytest.mark.parametrize("level", [1e-5, 1e-5 / 7])
def test_the_level_is_exact_far_out(count: int, size: int, level: float) -> None:
    """The largest sum that is refused, by bisection over groups of rising sums, has an exact chance below 1.6 of the level."""
    for values in (np.arange(count) * 1.0, np.arange(count) >= 0.7 * count, np.arange(count) // 7 * 1.0):
        ranks = np.round(2 * rankdata(values)).astype(int)
        chances = count_sums(ranks, size)
        groups = [tuple(range(size))]
        for last in range(size - 1, -1, -1):
            for place in range(last + 1, count - size + last + 1):
                groups.append((*groups[-1][:last], place, *groups[-1][last + 1 :]))
        low, high, refused = 0, len(groups) - 1, 0.0
        while low <= high:
            middle = (low + high) // 2
            included = np.isin(np.arange(count), groups[middle])
            if lower_tail(values.astype(float), included) < level:
                refused, low = max(refused, float(chances[ranks[included].sum()])), middle + 1
            else:
                high = middle - 1
        assert refused <= 1.6 * level
