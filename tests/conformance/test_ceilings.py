"""The ceiling of every estimator is what perfect scores prove under the coins that fell."""

from __future__ import annotations

import numpy as np
import pytest

from audit import plugins
from audit.bounds import group_privacy
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import LowerBound
from audit.core.events import dp_sgd
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.core.views import Scores

FULL_BATCH = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.9, steps=4)
SIMULATED = ("gaussian", "fdp_rank")  # the ceiling is exact, the bound pays for the error of a simulation
SPECS: list[dict[str, object]] = [
    {"kind": "one_run"},
    {"kind": "one_run", "calibration": "each"},
    {"kind": "one_run", "guess_fractions": [0.2, 0.5]},
    {"kind": "one_run_fdp"},
    {"kind": "one_run_fdp", "guess_fractions": [1.0]},
    {"kind": "product_channel"},
    {"kind": "product_channel", "family": "any", "guess_fractions": [0.5, 1.0]},
    {"kind": "rank_exact"},
    {"kind": "rank_exact", "family": "gdp"},
    {"kind": "clopper_pearson"},
    {"kind": "clopper_pearson", "threshold_by": "fixed", "threshold": 0.5},
    {"kind": "gaussian"},
    {"kind": "gaussian", "statistic": "paired"},
    {"kind": "both_ends"},
    {"kind": "fdp_rank"},
    {"kind": "fdp_rank", "statistic": "rank"},
]
SIDES = ((30, 30), (27, 33), (10, 50), (1, 9), (61, 40), (20, 100))


def bound_of_perfect(spec: dict[str, object], sides: tuple[int, int], copies: int) -> LowerBound:
    members, count = sides[0], sum(sides)
    game = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=1,
        runs=count,
        copies=copies,
    )
    included = np.arange(count) < members
    scores = Scores(values=included.astype(float), included=included, game=game, mechanism=FULL_BATCH)
    estimator = plugins.build("audit.bounds.estimators", spec)
    if copies == 1:
        return estimator.lower_bound(scores, delta=1e-5, confidence=0.95, seed=Seed(0))
    return group_privacy.bound(estimator, scores, delta=1e-5, confidence=0.95, seed=Seed(0))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "-".join(str(part) for part in spec.values()))
def test_perfect_scores_prove_the_ceiling_at_every_balance(spec: dict[str, object]) -> None:
    for copies in (1,) if spec["kind"] == "fdp_rank" else (1, 2):
        for sides in SIDES:
            found = bound_of_perfect(spec, sides, copies)
            loss = 0.03 * found.ceiling if spec["kind"] in SIMULATED else 2e-3
            assert found.ceiling - loss <= found.epsilon <= found.ceiling, (sides, copies, found)


def test_every_estimator_for_coins_has_its_ceiling_here() -> None:
    others = {"one_run_secrets", "reconstruction"}  # of secrets; their ceilings are all guesses right
    betting = {"sequential"}  # learns as it goes, so its best path is the one of a bet on the truth from the first trial on
    names = set(plugins.names("audit.bounds.estimators"))
    assert names == {str(spec["kind"]) for spec in SPECS} | others | betting
