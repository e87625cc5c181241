from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.stats.bounds import roc, roc_band

scores = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=25).map(np.array)


def naive_auc(members: np.ndarray, nonmembers: np.ndarray) -> float:
    return float(np.mean([(a > b) + (a == b) / 2 for a in members for b in nonmembers]))


@settings(deadline=None)
@given(members=scores, nonmembers=scores)
def test_auc_equals_all_pairs(members: np.ndarray, nonmembers: np.ndarray) -> None:
    assert roc.auc(members, nonmembers) == pytest.approx(naive_auc(members, nonmembers))


@settings(deadline=None)
@given(members=scores, nonmembers=scores)
def test_curve_equals_counting_at_every_threshold(members: np.ndarray, nonmembers: np.ndarray) -> None:
    fpr, tpr = roc.curve(members, nonmembers)
    cuts = np.unique(np.concatenate([members, nonmembers]))[::-1]
    assert fpr.tolist() == [0.0, *[np.mean(nonmembers >= cut) for cut in cuts]]
    assert tpr.tolist() == [0.0, *[np.mean(members >= cut) for cut in cuts]]


@settings(deadline=None, max_examples=40)
@given(members=scores, nonmembers=scores, target=st.floats(0.01, 1.0))
def test_tpr_is_read_at_a_realised_point_inside_the_band(members: np.ndarray, nonmembers: np.ndarray, target: float) -> None:
    point = roc.tpr_at_fpr(members, nonmembers, target, 0.9)
    if target < 1 / len(nonmembers) * (1 - 1e-9):
        assert point is None
        return
    assert point is not None
    assert point.realised_fpr == point.false_positives / len(nonmembers) <= target * (1 + 1e-9)
    allowed = [
        cut
        for cut in np.append(np.unique(np.concatenate([members, nonmembers])), np.inf)
        if np.mean(nonmembers >= cut) <= target * (1 + 1e-12)
    ]
    assert point.true_positives == max(int((members >= cut).sum()) for cut in allowed)
    assert point.lower <= point.tpr <= point.upper


def test_rates_below_the_resolution_are_refused() -> None:
    members, nonmembers = np.arange(100.0), np.arange(100.0)
    assert roc.tpr_at_fpr(members, nonmembers, 0.009, 0.95) is None
    assert roc.tpr_at_fpr(members, nonmembers, 0.01, 0.95) is not None


@pytest.mark.parametrize("count", [1, 2, 7])
def test_chance_inside_against_the_definition(count: int) -> None:
    """Sorted uniforms between two staircases, by simulation."""
    draw = np.random.default_rng(count)
    ranks = np.arange(1, count + 1)
    low, high = stats.beta.ppf(0.1, ranks, count - ranks + 1), stats.beta.ppf(0.85, ranks, count - ranks + 1)
    sorted_draws = np.sort(draw.random((200_000, count)), axis=1)
    expected = ((sorted_draws >= low) & (sorted_draws <= high)).all(axis=1).mean()
    assert roc_band.chance_inside(ranks, low, high, count) == pytest.approx(expected, abs=0.006)


def test_chance_inside_has_the_kolmogorov_law() -> None:
    """Constant-width limits: the exact distribution of the Kolmogorov-Smirnov statistic."""
    for count, width in ((10, 0.35), (50, 0.18), (400, 0.06)):
        ranks = np.arange(1, count + 1)
        low, high = np.maximum(ranks / count - width, 0), np.minimum((ranks - 1) / count + width, 1)
        assert roc_band.chance_inside(ranks, low, high, count) == pytest.approx(stats.kstwo.cdf(width, count), abs=1e-9)


@pytest.mark.parametrize("count", [5, 60, 400])
def test_band_holds_with_exactly_its_confidence(count: int) -> None:
    band, draw, trials = roc_band.survival_band(count, 0.9), np.random.default_rng(0), 3000
    rates = np.sort(draw.random((trials, count)), axis=1)  # of the k-th highest score: between the band's steps
    held = ((band.lower[1:] <= rates) & (rates <= band.upper[:-1])).all(axis=1).mean()
    assert held == pytest.approx(0.9, abs=4 * math.sqrt(0.09 / trials) + 0.005)


def test_band_is_tighter_than_dkw_in_the_tail() -> None:
    width = math.sqrt(math.log(2 / 0.05) / (2 * 1000))  # Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant
    assert roc_band.survival_band(1000, 0.95).upper[0] < 0.02 < width


def test_large_samples_are_affordable() -> None:
    band = roc_band.survival_band(200_000, 0.95)
    assert (np.diff(band.lower) >= 0).all() and (np.diff(band.upper) >= 0).all()
    assert (band.lower <= np.arange(200_001) / 200_000).all() and (band.upper >= np.arange(200_001) / 200_000).all()


@pytest.mark.slow
def test_roc_band_covers_the_true_curve_at_every_rate() -> None:
    draw, held, trials = np.random.default_rng(1), 0, 300
    for _ in range(trials):
        band = roc.band(draw.normal(1, 1, 60), draw.normal(0, 1, 80), 0.9)
        truth = stats.norm.cdf(stats.norm.ppf(band.fpr) + 1)
        held += bool(((band.lower <= truth + 1e-12) & (truth <= band.upper + 1e-12)).all())
    assert held >= stats.binom.ppf(1e-4, trials, 0.9)


@pytest.mark.slow
def test_auc_interval_covers_and_contains_the_estimate() -> None:
    draw, held, trials = np.random.default_rng(2), 0, 300
    for _ in range(trials):
        members, nonmembers = draw.normal(1, 1, 40), draw.normal(0, 1, 60)
        low, high = roc.auc_interval(members, nonmembers, 0.9)
        assert 0 <= low <= roc.auc(members, nonmembers) <= high <= 1
        held += low <= 0.760250 <= high
    assert held >= stats.binom.ppf(1e-4, trials, 0.9)
    assert roc.auc_interval(np.ones(50) * 2, np.ones(50), 0.95)[1] == 1.0
    assert roc.auc_interval(np.ones(50) * 2, np.ones(50), 0.95)[0] > 0.9


def test_unusable_scores_are_named() -> None:
    with pytest.raises(ValueError, match="no nonmember"):
        roc.auc(np.ones(3), np.array([]))
    with pytest.raises(ValueError, match="NaN"):
        roc.curve(np.array([np.nan]), np.ones(2))


def test_the_smaller_side_decides_how_wide_the_limits_of_an_auc_are() -> None:
    few, many = np.arange(0.0, 8.0, 2.0), np.linspace(0.5, 5.5, 600)
    low, high = roc.auc_interval(few, many, 0.95)
    below, above = roc.auc_interval(np.arange(4.0), np.arange(4.0), 0.95)  # an AUC of 1/2 of four a side
    assert roc.auc(few, many) == pytest.approx(0.5, abs=0.02)
    assert low == pytest.approx(below, abs=0.05) and high == pytest.approx(above, abs=0.05)
