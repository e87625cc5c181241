"""What callers get who choose nothing: every public default is wrong as seldom as it says, on scores as they come.

Scores are those of randomised response with epsilon 1, equally informative at every threshold: whole numbers with many ties,
few members against many nonmembers, and canaries of one run that move together. The fast size runs by default.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import audit
from audit.core.errors import AssumptionError
from audit.stats.bounds import roc
from audit.stats.bounds.score_distributions import ScoreLaw
from audit.stats.curves import tradeoff

FLAT = ScoreLaw(kind="flat", parameter=1.0, delta=1e-9)
AUC = 1 / (1 + math.exp(-1))
COINS = ("tied coins", "dependent coins")
SIZES = [20, pytest.param(120, marks=pytest.mark.slow), pytest.param(400, marks=pytest.mark.calibration)]


def scored(layout: str, number: int, size: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Member and nonmember scores of one simulated audit."""
    draw = np.random.default_rng([number, len(layout)])
    included = np.arange(size) < size // (8 if layout == "unbalanced" else 2)
    if layout in COINS:
        included = draw.random(size) < 0.5
    values = FLAT.draw(included, draw)
    if layout.startswith("tied"):
        values = np.round(2 * values) + np.where(values > 0, 0.5, -0.5)  # the sign stays: all that these scores show
    if layout == "dependent coins":
        values = values * np.exp(draw.normal()) + draw.normal()
    return values[included], values[~included]


def allowed(trials: int) -> int:
    return int(stats.binom.ppf(1 - 1e-4, trials, 0.05))


@pytest.mark.slow
@pytest.mark.parametrize("trials", SIZES)
@pytest.mark.parametrize(
    ("game", "layout"),
    [
        ("one_run", "tied coins"),
        ("one_run", "dependent coins"),
        ("independent_trials", "tied"),
        ("independent_trials", "unbalanced"),
    ],
)
def test_bounds_on_epsilon_and_delta(game: str, layout: str, trials: int) -> None:

    truth = (math.e - 1) / (math.e + 1)  # delta of randomised response at epsilon 0: its total variation
    above_epsilon = above_delta = 0
    for number in range(trials):
        sides = scored(layout, number)
        above_epsilon += audit.lower_bound(*sides, delta=1e-9, game=game, certificates=0).epsilon > 1.0
        above_delta += audit.delta_lower_bound(*sides, epsilon=0.0, game=game).delta > truth
    assert max(above_epsilon, above_delta) <= allowed(trials)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "trials", [12, pytest.param(100, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.calibration)]
)
@pytest.mark.parametrize("game", ["one_run", "independent_trials"])
@pytest.mark.parametrize("layout", ["tied coins", "unbalanced"])
def test_bounds_inside_gaussian_privacy(game: str, layout: str, trials: int) -> None:
    """Rounded scores of a Gaussian mechanism are a post-processing, so they satisfy its curve; few members against many."""
    law, above = ScoreLaw(kind="gaussian", parameter=1.0, delta=1e-5), 0
    for number in range(trials):
        draw = np.random.default_rng([number, len(layout)])
        included = draw.random(80) < 0.5 if layout in COINS or game == "one_run" else np.arange(80) < 10
        values = law.draw(included, draw)
        values = np.round(2 * values) if layout.startswith("tied") else values
        requested = {"delta": law.delta, "game": game, "family": "gdp", "certificates": 0}
        above += audit.lower_bound(values[included], values[~included], **requested).epsilon > law.epsilon
    assert above <= allowed(trials)


@pytest.mark.slow
@pytest.mark.parametrize(
    "trials", [100, pytest.param(300, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.calibration)]
)
@pytest.mark.parametrize("layout", ["tied", "unbalanced"])
def test_intervals_on_the_auc_and_bands_on_the_roc(layout: str, trials: int) -> None:
    missed_auc = missed_roc = 0
    for number in range(trials):
        sides = scored(layout, number, 160)
        low, high = roc.auc_interval(*sides, 0.95)
        missed_auc += not low <= AUC <= high
        band = roc.band(*sides, 0.95)
        best = tradeoff.tpr_allowed(1.0, 0.0, band.fpr)
        missed_roc += bool((band.lower > best + 1e-12).any())  # ties may be below the curve of untied scores, never above
        missed_roc += layout != "tied" and bool((band.upper < best - 1e-12).any())
    assert max(missed_auc, missed_roc) <= allowed(trials)


def test_rows_that_were_copied_are_not_counted_as_evidence() -> None:
    members, nonmembers = scored("untied", 1)
    with pytest.raises(AssumptionError, match="cop"):
        audit.lower_bound(np.repeat(members, 10), np.repeat(nonmembers, 10), delta=1e-5)
