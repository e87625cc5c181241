from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from audit.stats.bounds import rank_exact, ranks
from audit.stats.bounds.rank_exact import Precedence
from audit.stats.curves import tradeoff

EPSILON_DELTA = functools.partial(tradeoff.epsilon_delta, delta=1e-5)


def naive(test: Precedence, curve: tradeoff.TradeoffCurve) -> float:
    """The expectation over the threshold's Beta law, cell by cell in its quantiles."""
    ends = np.concatenate([[0], np.geomspace(1e-11, 0.01, 4001), np.linspace(0.01, 0.99, 40_001)[1:]])
    ends = np.concatenate([ends, 1 - np.geomspace(0.01, 1e-11, 4001)[1:], [1]])
    middle, weight = (ends[1:] + ends[:-1]) / 2, np.diff(ends)
    rate = stats.beta.ppf(middle, test.rank, test.reference - test.rank + 1)
    allowed = (curve.tpr if test.from_top else curve.tnr)(rate)
    return float(weight @ stats.binom.sf(test.count - 1, test.sample, np.clip(allowed, 0, 1)))


@pytest.mark.parametrize(
    "case",  # count, sample, rank, reference, epsilon, delta
    [
        (100, 100, 1, 100, 3.65, 1e-5),
        (100, 100, 9, 100, 3.65, 1e-5),
        (1000, 1000, 3, 1000, 5.9, 1e-5),
        (350, 1000, 81, 1000, 1.2, 1e-5),
        (330, 1000, 81, 1000, 1.2, 0.02),
        (20, 10_000, 1, 10_000, 2.0, 1e-3),
        (700, 100_000, 27, 300, 1.0, 0.0),
        (15, 100, 5, 100, 0.0, 0.0),
    ],
)
def test_p_value_equals_the_slow_expectation(case: tuple[int, int, int, int, float, float]) -> None:
    count, sample, rank, reference, epsilon, delta = case
    test = Precedence(count=count, sample=sample, rank=rank, reference=reference, from_top=True)
    curve = tradeoff.epsilon_delta(epsilon, delta)
    assert rank_exact.p_value(test, curve) == pytest.approx(naive(test, curve), rel=2e-4)


def test_no_privacy_loss_is_the_negative_hypergeometric_test() -> None:
    """At epsilon 0 all interleavings are equally likely: count them."""
    for members, nonmembers, rank, count in ((100, 100, 5, 15), (7, 9, 2, 4), (30, 50, 10, 20)):
        total = math.comb(members + nonmembers, members)
        ways = sum(
            math.comb(rank - 1 + above, above) * math.comb(nonmembers - rank + members - above, members - above)
            for above in range(count, members + 1)
        )
        test = Precedence(count=count, sample=members, rank=rank, reference=nonmembers, from_top=True)
        assert rank_exact.p_value(test, tradeoff.epsilon_delta(0.0, 0.0)) == pytest.approx(ways / total, rel=1e-9)


def test_p_value_is_the_chance_under_the_least_favourable_pair() -> None:
    """Simulates the pair itself: nonmembers uniform, members from the curve."""
    draw = np.random.default_rng(0)
    curve, members, nonmembers, rank, count = tradeoff.epsilon_delta(1.0, 0.05), 40, 60, 6, 16
    grid = np.linspace(0, 1, 100_001)
    reach = curve.tpr(grid)
    reached = 0
    for _ in range(4000):
        threshold = np.sort(draw.random(nonmembers))[rank - 1]
        positions = np.interp(draw.random(members), reach, grid)
        reached += (positions <= threshold).sum() >= count
    test = Precedence(count=count, sample=members, rank=rank, reference=nonmembers, from_top=True)
    expected = rank_exact.p_value(test, curve)
    assert 0.02 < expected < 0.9
    assert reached / 4000 == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / 4000))


def quantile_scores(count: int) -> np.ndarray:
    normal = stats.norm.ppf((np.arange(count) + 0.5) / count)
    included = np.arange(2 * count) < count
    return ranks.by_rank(np.concatenate([normal + 1, normal]), included)


@pytest.mark.parametrize(
    ("count", "both", "top", "inside_gdp"), [(1000, 1.4248, 1.4944, 3.6004), (100, 0.5903, 0.6657, 2.1592)]
)
def test_golden_bounds(count: int, both: float, top: float, inside_gdp: float) -> None:
    tests = rank_exact.precedence_tests(quantile_scores(count), 3.0)
    from_top = tuple(test for test in tests if test.from_top)
    assert rank_exact.bound(tests, EPSILON_DELTA, significance=0.05)[0] == pytest.approx(both, abs=2e-4)
    assert rank_exact.bound(from_top, EPSILON_DELTA, significance=0.05)[0] == pytest.approx(top, abs=2e-4)
    mu, _ = rank_exact.bound(tests, tradeoff.gdp, significance=0.05)
    assert tradeoff.gdp_epsilon(mu, 1e-5) == pytest.approx(inside_gdp, abs=2e-4)


@pytest.mark.parametrize(("count", "expected"), [(100, 3.6510), (500, 5.2018), (1000, 5.8973), (10_000, 8.1508)])
def test_ceiling_of_perfect_separation(count: int, expected: float) -> None:
    tests = rank_exact.precedence_tests(np.arange(2 * count) < count, 3.0)
    assert rank_exact.bound(tests, EPSILON_DELTA, significance=0.05)[0] == pytest.approx(expected, abs=3e-4)


def test_asymmetric_curve_is_read_from_the_right_end() -> None:
    """Nonmembers below a low member use the curve's other direction."""
    lopsided = tradeoff.TradeoffCurve(
        tpr=lambda u: np.minimum(1.0, 0.5 + np.asarray(u)),  # half of the members are betrayed outright
        tnr=lambda u: np.minimum(1.0, np.where(np.asarray(u) < 0.5, np.asarray(u), 1.0)),
    )
    top = Precedence(count=30, sample=50, rank=1, reference=50, from_top=True)
    bottom = Precedence(count=30, sample=50, rank=1, reference=50, from_top=False)
    assert rank_exact.p_value(top, lopsided) > 0.1
    assert rank_exact.p_value(bottom, lopsided) < 1e-6
    assert rank_exact.p_value(bottom, lopsided.mirror()) == pytest.approx(rank_exact.p_value(top, lopsided), rel=1e-6)


def test_number_of_tests_depends_on_sizes_alone() -> None:
    draw = np.random.default_rng(1)
    sizes = {len(rank_exact.precedence_tests(draw.permutation(np.arange(300) < 100), 3.0)) for _ in range(20)}
    assert len(sizes) == 1


def test_ties_count_against_the_attack_and_independently_of_the_listing_order() -> None:
    values, included = np.array([1.0, 0, 0, 0, 0, -1]), np.array([True, False, True, False, True, False])
    expected = [True, False, False, True, True, False]
    for order in itertools.permutations(range(6)):
        assert ranks.by_rank(values[list(order)], included[list(order)]).tolist() == expected


def test_counts_by_brute_force() -> None:
    draw = np.random.default_rng(2)
    values, included = draw.normal(size=40), draw.random(40) < 0.5
    ranked = ranks.by_rank(values, included)
    members, nonmembers = values[included], values[~included]
    above = [(members > cut).sum() for cut in np.sort(nonmembers)[::-1]]
    below = [(nonmembers < cut).sum() for cut in np.sort(members)]
    assert ranks.members_above(ranked).tolist() == above
    assert ranks.nonmembers_below(ranked).tolist() == below


def test_several_tests_share_the_significance() -> None:
    """A test with a p-value between a half of the level and the level refutes alone, and not as one of two."""
    nothing = tradeoff.epsilon_delta(0.0, 0.0)
    telling = Precedence(count=15, sample=100, rank=5, reference=100, from_top=True)  # p-value .007
    silent = Precedence(count=5, sample=100, rank=5, reference=100, from_top=True)
    assert rank_exact.refutes((telling,), nothing, significance=0.01)
    assert not rank_exact.refutes((telling, silent), nothing, significance=0.01)
    assert rank_exact.refutes((telling, silent), nothing, significance=0.02)
