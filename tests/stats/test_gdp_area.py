"""The area under the ROC against exact laws, plain simulation and slow twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from audit.stats.bounds import gdp_area, rank_sums
from tests.stats.test_least_favourable import chances_of_wins

SHARES = (1, 2, 3, 4, 5, 10, 20)


@pytest.mark.parametrize("sides", [(1, 1), (1, 7), (3, 3), (2, 30), (21, 20), (33, 47), (60, 35)])
def test_tails_are_those_of_the_recursion(sides: tuple[int, int]) -> None:
    exact = np.cumsum(chances_of_wins(*sides)[::-1])[::-1]
    result = np.array([rank_sums.tail(*sides, wins) for wins in range(len(exact))])
    assert (result >= exact - 1e-14).all() and np.abs(result - exact).max() < 2e-11


def test_terms_that_are_left_out_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [rank_sums.tail(150, 320, wins) for wins in (24_000, 26_500, 28_000)]
    monkeypatch.setattr(rank_sums, "ALL_TERMS", 10**12)
    rank_sums._terms.cache_clear()
    assert few == pytest.approx([rank_sums.tail(150, 320, wins) for wins in (24_000, 26_500, 28_000)], abs=1e-14)
    rank_sums._terms.cache_clear()


@pytest.mark.parametrize("sizes", [range(20, 501, 13), pytest.param(range(20, 501), marks=pytest.mark.slow)])
def test_at_every_size_the_level_is_the_largest_attainable_one(sizes: range) -> None:
    """Each size from 20 to 500 a side, equal sides and unequal ones, and each share of the error budget."""
    for size in sizes:
        for sides in ((size, size), (size, round(0.78 * size))):
            share = SHARES[size % len(SHARES)]
            for level in {0.05, 0.05 / 3, 0.05 / share}:
                least = gdp_area.critical_wins(*sides, 0.0, level)
                assert rank_sums.tail(*sides, least) <= level < rank_sums.tail(*sides, least - 1), (sides, level)


@pytest.mark.parametrize("wins", [1, 30, 50, 63])
def test_crossings_are_order_statistics_of_differences_rounded_down(wins: int) -> None:
    members, nonmembers = gdp_area._residuals(7, 9, 40)
    differences = (nonmembers[:, None, :] - members[:, :, None]).reshape(40, -1)
    exact = np.sort(differences, axis=1)[:, wins - 1]
    lost = exact - gdp_area._crossings(7, 9, wins, 40)
    assert (lost >= 0).all() and (lost < math.sqrt(1 / 7 + 1 / 9) / gdp_area.GRID + 1e-5).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sides", "mu", "level"),
    [
        ((20, 20), 1.0, 0.05),
        ((43, 61), 2.0, 0.05 / 3),
        pytest.param((100, 100), 0.5, 0.01, marks=pytest.mark.slow),
        pytest.param((500, 500), 1.0, 0.01, marks=pytest.mark.slow),
    ],
)
def test_the_level_at_the_exact_claim_is_close_below_the_stated_one(sides: tuple[int, int], mu: float, level: float) -> None:
    """Against fresh whole samples; the luck of the draws costs a seventh of the level at most."""
    generator, count, wrong = np.random.default_rng(11), 12_000 if sum(sides) > 400 else 40_000, 0
    critical = gdp_area.critical_wins(*sides, mu, level)
    for _ in range(count // 2000):
        members, nonmembers = generator.normal(mu, 1, (2000, sides[0])), generator.normal(0, 1, (2000, sides[1]))
        places = stats.rankdata(np.concatenate([members, nonmembers], axis=1), axis=1)[:, : sides[0]]
        wrong += int((places.sum(axis=1) - sides[0] * (sides[0] + 1) / 2 >= critical).sum())
    assert stats.binom.sf(wrong - 1, count, level) > 1e-4
    assert stats.binom.cdf(wrong, count, 0.84 * level) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("members", "nonmembers"), [(20, 20), (30, 17)])
def test_bounds_grow_with_wins_and_significance_and_agree_with_the_test(members: int, nonmembers: int) -> None:
    pairs = members * nonmembers
    wins = [pairs // 2, int(0.7 * pairs), int(0.7 * pairs) + 1, int(0.8 * pairs), pairs - 1, pairs]
    for level in (0.05, 0.01):
        result = [gdp_area.bound(members, nonmembers, item, level) for item in wins]
        assert result == sorted(result) and result[0] == 0 < result[-1]
        assert all(gdp_area.bound(members, nonmembers, item, 0.1) >= bound for item, bound in zip(wins, result, strict=True))
    least = gdp_area.critical_wins(members, nonmembers, 0.6, 0.05)
    assert gdp_area.bound(members, nonmembers, least - 1, 0.05) <= 0.6 + 1e-3
    assert gdp_area.bound(members, nonmembers, least, 0.05) >= 0.6 - 1e-3
    positive = gdp_area.critical_wins(members, nonmembers, 0.0, 0.05)
    assert gdp_area.bound(members, nonmembers, positive, 0.05) > 0 == gdp_area.bound(members, nonmembers, positive - 1, 0.05)
