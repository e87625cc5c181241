"""Rates of tied scores: their expected value, with no seed, inside limits that hold under ties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from audit.core.game import Game
from audit.core.views import Scores
from audit.experiment.line import findings
from audit.stats.bounds import ranks, roc_band


def mean_over_lots(members: np.ndarray, nonmembers: np.ndarray, allowed: int) -> float:
    """The rate of the test that flags so many nonmembers on average, equal scores by lot of one chance; over all thresholds."""
    rates = []
    for threshold in np.unique(np.concatenate([members, nonmembers])):
        false, tied = (nonmembers > threshold).sum(), (nonmembers == threshold).sum()
        if false <= allowed:
            chance = 1.0 if tied == 0 else min(1.0, (allowed - false) / tied)
            rates.append(((members > threshold).sum() + chance * (members == threshold).sum()) / len(members))
    return float(max(rates))


@pytest.mark.parametrize("values", [1, 2, 3, 10])
@pytest.mark.parametrize("target", [0.01, 0.05, 0.3, 1.0])
def test_the_rate_is_the_mean_of_lots_among_equal_scores(values: int, target: float) -> None:
    draw = np.random.default_rng(values)
    members, nonmembers = draw.integers(values, size=130).astype(float), draw.integers(values, size=211).astype(float)
    expected = mean_over_lots(members, nonmembers, int(np.floor(target * 211 + 1e-9)))
    assert ranks.expected_tpr(members, nonmembers, target) == pytest.approx(expected)


def test_counts_follow_the_expected_rate_to_one_member() -> None:
    draw = np.random.default_rng(3)
    values, included = draw.integers(4, size=300).astype(float), draw.random(300) < 0.4
    ranking = ranks.spread_evenly(values, included)
    members, nonmembers = values[included], values[~included]
    for allowed in range(len(nonmembers)):
        last = np.flatnonzero(np.cumsum(~ranking) <= allowed)
        result = ranking[: last[-1] + 1].sum() if len(last) else 0
        expected = len(members) * ranks.expected_tpr(members, nonmembers, (allowed + 0.5) / len(nonmembers))
        assert expected - 1 < result <= expected + 1e-9


def test_distinct_scores_are_ranked_as_they_are() -> None:
    draw = np.random.default_rng(4)
    values, included = draw.normal(size=80), draw.random(80) < 0.5
    assert ranks.spread_evenly(values, included).tolist() == included[np.argsort(-values)].tolist()


def test_an_attack_is_given_the_expected_rate_itself() -> None:
    draw = np.random.default_rng(6)
    values, included = draw.integers(5, size=150).astype(float), draw.random(150) < 0.5
    scores = Scores(values=values, included=included, game=Game.of_scores("one_run", 150))
    points = [point for point in findings.attack_result(scores, confidence=0.95).tpr_at if point.tpr is not None]
    rates = [ranks.expected_tpr(scores.members, scores.nonmembers, point.target_fpr) for point in points]
    assert points and [point.tpr for point in points] == rates


@pytest.mark.slow
def test_figures_of_tied_scores_depend_on_neither_order_nor_seed() -> None:
    draw = np.random.default_rng(5)
    values, included = (draw.random(500) < 0.9).astype(float), draw.random(500) < 0.5
    game = Game.of_scores("one_run", 500)
    result = findings.attack_result(Scores(values=values, included=included, game=game), confidence=0.95)
    for _ in range(20):
        order = draw.permutation(500)
        scores = Scores(values=values[order], included=included[order], game=game)
        assert findings.attack_result(scores, confidence=0.95) == result
    for point in result.tpr_at:
        if point.tpr is not None:
            assert point.lower <= point.tpr <= point.upper  # type: ignore[operator]
            assert point.tpr == pytest.approx(point.target_fpr, abs=0.02)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("values", [2, 5, pytest.param(12, marks=pytest.mark.slow), pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_limits_hold_under_ties(values: int, shift: float) -> None:
    """The whole curve, straight within ties, is in the band in 95 % of samples."""
    grid, draw, audits = np.linspace(-8, 9, 20_001), np.random.default_rng(values), 200
    cuts = np.interp(np.arange(1, values) / values, (special.ndtr(grid) + special.ndtr(grid - shift)) / 2, grid)
    laws = [np.diff(np.concatenate([[0.0], special.ndtr(cuts - mean), [1.0]])) for mean in (shift, 0.0)]
    true, false = (np.clip(np.concatenate([[0.0], np.cumsum(law[::-1])]), 0, 1) for law in laws)
    true[-1] = false[-1] = 1.0
    points = np.unique(np.concatenate([false, np.linspace(0, 1, 101)]))
    critical, covered = roc_band.critical_value(120, 100, 0.95), 0
    for _ in range(audits):
        scores = np.concatenate([draw.choice(values, size, p=law) for size, law in zip((120, 100), laws, strict=True)])
        path = roc_band.ThresholdPath.of(ranks.spread_evenly(scores, np.arange(220) < 120))
        covered += roc_band.departure(path, points, np.interp(points, false, true)) <= critical
    assert covered >= 0.92 * audits
