"""Bands on a ROC against a slow twin, against curves with known departures, and their level."""

from __future__ import annotations

import bisect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from audit.stats.arrays import Array
from audit.stats.bounds import roc, roc_band
from audit.stats.bounds.roc_band import ThresholdPath


def slow_limits(members: Array, nonmembers: Array, rate: float, critical: float) -> tuple[float, float]:
    """The least and largest true positive rate that some threshold's counts leave plausible, by trying thresholds and rates."""

    def cost(count: int, size: int, value: float) -> float:
        parts = ((count, value), (size - count, 1 - value))
        return sum(part * math.log(part / size / share) if share > 0 else math.inf for part, share in parts if part)

    plausible = []
    for cut in [*members, *nonmembers, math.inf]:
        false, true = int((nonmembers >= cut).sum()), int((members >= cut).sum())
        first = critical - cost(false, len(nonmembers), rate)
        plausible += [value for value in np.linspace(0, 1, 401) if cost(true, len(members), float(value)) <= first]
    return min(plausible), max(plausible)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    sides=st.sampled_from([(3, 9), (12, 5), (20, 20)]),
    rate=st.sampled_from([0.0, 0.11, 0.5, 1.0]),
)
def test_limits_are_those_of_all_thresholds(seed: int, sides: tuple[int, int], rate: float) -> None:
    draw = np.random.default_rng(seed)
    members, nonmembers = draw.normal(0.7, 1, sides[0]), draw.normal(0, 1, sides[1])
    result = roc._limits(members, nonmembers, 0.95, np.array([rate]))
    expected = slow_limits(members, nonmembers, rate, roc_band.critical_value(*sides, 0.95))
    assert result[0][0] == pytest.approx(expected[0], abs=1 / 400 + 1e-9)
    assert result[1][0] == pytest.approx(expected[1], abs=1 / 400 + 1e-9)


@pytest.mark.slow
def test_a_curve_lies_in_the_band_where_its_departure_is_below_the_critical_value() -> None:
    """Limits and departure are two sides of one definition, with thresholds left out and without."""
    draw, agree = np.random.default_rng(4), []
    for size in (40, 3000):
        for _ in range(8):
            ranked = draw.permutation(np.arange(2 * size) < size)
            path, rates = ThresholdPath.of(ranked), np.sin(np.linspace(0.01, 1.56, 80)) ** 2
            departure = roc_band.departure(path, rates, rates)
            for critical in (0.97 * departure, 1.03 * departure):
                low, high = (limits(path, rates, critical) for limits in (roc_band.lower_limits, roc_band.upper_limits))
                agree.append(bool(((low <= rates) & (rates <= high)).all()) == (critical > departure))
    assert all(agree)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("sides", "trials"),
    [
        ((40, 40), 400),
        pytest.param((100, 100), 1500, marks=pytest.mark.slow),
        pytest.param((1000, 1000), 600, marks=pytest.mark.slow),
        pytest.param((10_000, 10_000), 200, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_band_covers_as_often_as_it_says_and_not_much_more(sides: tuple[int, int], trials: int, shift: float) -> None:
    draw, covered = np.random.default_rng([*sides, trials]), 0
    fpr = np.sin(np.linspace(0.004, math.pi / 2 - 0.004, 250)) ** 2
    critical = roc_band.critical_value(*sides, 0.95)
    for _ in range(trials):
        scores = np.concatenate([draw.normal(shift, 1, sides[0]), draw.normal(0, 1, sides[1])])
        path = ThresholdPath.of(np.argsort(-scores) < sides[0])
        covered += roc_band.departure(path, fpr, special.ndtr(special.ndtri(fpr) + shift)) <= critical
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], trials, [0.95, 0.99])
    assert low <= covered <= high, covered / trials


def test_ties_widen_the_band_and_a_tie_of_all_says_nothing() -> None:
    draw = np.random.default_rng(5)
    members, nonmembers, rates = draw.normal(1, 1, 60), draw.normal(0, 1, 60), np.linspace(0, 1, 21)
    plain = roc._limits(members, nonmembers, 0.95, rates)
    tied = roc._limits(np.round(members), np.round(nonmembers), 0.95, rates)
    assert (tied[0] <= plain[0] + 1e-9).all() and (tied[1] >= plain[1] - 1e-9).all()
    nothing = roc._limits(np.ones(60), np.ones(60), 0.95, rates[1:-1])
    assert (nothing[0] < 0.1).all() and (nothing[1] > 0.9).all()


def test_the_band_for_any_curve_holds_a_staircase_and_is_wider() -> None:
    """Clusters of members and of nonmembers in turn, which the band for concave curves is not calibrated for."""
    draw, covered, trials = np.random.default_rng(6), 0, 150
    corners = np.repeat(np.arange(5) / 4, 2)
    for _ in range(trials):
        members, nonmembers = -2.0 * draw.integers(0, 4, 80), -2.0 * draw.integers(0, 4, 80) - 1
        noise = draw.random(160) / 2
        band = roc.band(members - noise[:80], nonmembers - noise[80:], 0.95, any_curve=True)
        best = np.interp(band.fpr, corners[:-1] + 1e-12 * np.arange(9), corners[1:])
        covered += bool((band.lower <= best + 1e-9).all() and (band.upper >= best - 0.25 - 1e-9).all())
    assert covered >= stats.binom.ppf(1e-4, trials, 0.95)
    sides = draw.normal(1, 1, 300), draw.normal(0, 1, 300)
    widths = [np.mean(band.upper - band.lower) for band in (roc.band(*sides, 0.95), roc.band(*sides, 0.95, any_curve=True))]
    assert widths[1] > 1.4 * widths[0]


def test_critical_values_grow_with_confidence_and_scores() -> None:
    sizes = (1, 2, 7, 50, 700, 20_000, 10**6)
    table = np.array([[roc_band.critical_value(size, 1, level) for level in (0.3, 0.9, 0.95, 0.993, 0.9999)] for size in sizes])
    assert (np.diff(table, axis=1) > 0).all() or (np.diff(table, axis=1) >= 0).all()
    assert (np.diff(table[2:], axis=0) > 0).all()
    assert roc_band.critical_value(30, 1000, 0.95) == roc_band.critical_value(1000, 30, 0.95)


def test_large_samples_are_affordable() -> None:
    draw = np.random.default_rng(7)
    band = roc.band(draw.normal(1, 1, 100_000), draw.normal(0, 1, 100_000), 0.95)
    truth = special.ndtr(special.ndtri(band.fpr) + 1)
    middle = (band.fpr > 0.1) & (band.fpr < 0.9)
    assert np.max((band.upper - band.lower)[middle]) < 0.03
    assert (band.lower - 0.005 <= truth).all() and (truth <= band.upper + 0.005).all()


# ------------------------------------------------------------------------------------------------ limits on the AUC


@pytest.mark.parametrize("pairs", [1, 2, 10, 300])
def test_limits_on_the_auc_of_perfect_scores_are_those_of_coins(pairs: int) -> None:
    """Clopper-Pearson for as many coins as there are pairs: no law allows less."""
    low, high = roc.auc_interval(np.full(pairs, 2.0), np.zeros(pairs), 0.95)
    assert low == pytest.approx(0.025 ** (1 / pairs), rel=1e-6) and high == 1.0


@pytest.mark.parametrize(("rate", "pairs"), [(0.5, 20), (0.76, 100), (0.98, 40), (0.9, 100_000)])
def test_limits_on_the_auc_hold_for_coins_and_are_tighter_than_chernoffs(rate: float, pairs: int) -> None:
    """Where nonmembers are between two groups of members the AUC is a share of successes: the least favourable law."""

    def is_wrong(count: int) -> bool:
        return roc._least_rate(count / pairs, pairs, 0.025) > rate

    first_wrong = bisect.bisect_left(range(pairs + 1), True, key=is_wrong)
    assert stats.binom.sf(first_wrong - 1, pairs, rate) <= 0.025
    share = rate
    low = roc._least_rate(share, pairs, 0.025)
    spent = special.rel_entr(share, low) + special.rel_entr(1 - share, 1 - low)
    assert 0 < spent < math.log(1 / 0.025) / pairs
