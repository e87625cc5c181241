"""The ceiling of every estimator is what perfect scores prove under the coins that fell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from audit import plugins
from audit.bounds import claim_test, group_privacy
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Outcome
from audit.core.events import dp_sgd
from audit.core.game import Game, Inclusion
from audit.core.lower_bounds import LowerBound
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.experiment.line import judge

FULL_BATCH = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.9, steps=4)
SIMULATED = ("gaussian",)  # the ceiling is exact, the bound pays for the error of a simulation
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
    {"kind": "clopper_pearson", "threshold_by": "split"},
    {"kind": "clopper_pearson", "threshold_by": "fixed", "threshold": 0.5},
    {"kind": "gaussian"},
    {"kind": "gaussian", "statistic": "paired"},
    {"kind": "both_ends"},
    {"kind": "fdp_rank"},
    {"kind": "fdp_rank", "statistic": "rank"},
    {"kind": "sequential"},
]
ONE_DELTA = [spec for spec in SPECS if "split" in spec.values()]
"""Chosen for one delta: refuse bounds on delta, and copies."""
SECRET_SPECS: list[dict[str, object]] = [
    {"kind": "one_run_secrets"},
    {"kind": "one_run_secrets", "guess_fractions": [0.5]},
    {"kind": "one_run_secrets", "named": 2},
    {"kind": "reconstruction"},
    {"kind": "reconstruction", "family": "gdp"},
]
LEARNS = ("sequential", "split")
"""A cut between scores that differ within a side is learned, or chosen on a half, which may cost part of the proof."""
SIDES = ((30, 30), (27, 33), (10, 50), (1, 9), (61, 40), (20, 100))


def perfect_scores(sides: tuple[int, int], copies: int = 1, spread: float = 0.0) -> Scores:
    """Members near 1, nonmembers near 0, in a mixed order; `spread` is the deviation within a side."""
    members, count = sides[0], sum(sides)
    game = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=1,
        runs=count,
        copies=copies,
    )
    draw = np.random.default_rng(count)
    included = draw.permutation(count) < members
    values = included + spread * draw.normal(size=count)
    return Scores(values=values, included=included, game=game, mechanism=FULL_BATCH)


def bound_scores(spec: dict[str, object], scores: Scores) -> LowerBound:
    estimator = plugins.build("audit.bounds.estimators", spec)
    if scores.game.copies == 1:
        return estimator.lower_bound(scores, delta=1e-5, confidence=0.95, seed=Seed(0))
    return group_privacy.bound(estimator, scores, delta=1e-5, confidence=0.95, seed=Seed(0))


def learns(spec: dict[str, object]) -> bool:
    return any(value in LEARNS for value in spec.values())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "-".join(str(part) for part in spec.values()))
def test_perfect_scores_prove_the_ceiling_at_every_balance(spec: dict[str, object]) -> None:
    for copies in (1,) if spec["kind"] == "fdp_rank" or spec in ONE_DELTA else (1, 2):
        for sides in SIDES:
            result = bound_scores(spec, perfect_scores(sides, copies))
            loss = 0.03 * result.ceiling if spec["kind"] in SIMULATED else 2e-3
            assert result.ceiling - loss <= result.epsilon <= result.ceiling, (sides, copies, result)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "-".join(str(part) for part in spec.values()))
def test_perfect_scores_that_differ_within_a_side_prove_the_same_ceiling(spec: dict[str, object]) -> None:
    """Of 60 and 101 fair coins; if an estimator learns its threshold, never more than the ceiling."""
    for sides in SIDES[:2] + SIDES[4:5]:
        equal, spread = (bound_scores(spec, perfect_scores(sides, spread=spread)) for spread in (0.0, 0.05))
        assert spread.ceiling == equal.ceiling
        assert spread.epsilon <= spread.ceiling if learns(spec) else spread.epsilon == equal.epsilon, (sides, spread)


def secrets_game(secrets: int, choices: int, wrong: int) -> Scores:
    """Scores that name the value of each secret but for the first `wrong`."""
    game = Game(
        adjacency=Adjacency.REPLACE_ONE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=secrets,
        choices=choices,
        secret="attribute",
    )
    drawn = np.random.default_rng(secrets).integers(choices, size=secrets)
    answers = np.where(np.arange(secrets) < wrong, (drawn + 1) % choices, drawn)
    return claim_test.secret_scores(game, (answers[:, None] == np.arange(choices)).astype(float), drawn)


@pytest.mark.parametrize("spec", SECRET_SPECS, ids=lambda spec: "-".join(str(part) for part in spec.values()))
def test_named_secrets_prove_the_ceiling_whatever_values_were_drawn(spec: dict[str, object]) -> None:
    estimator = plugins.build("audit.bounds.estimators", spec)
    for secrets, choices in ((40, 3), (61, 10)):
        all_right, half_right = (
            estimator.lower_bound(secrets_game(secrets, choices, wrong), delta=1e-5, confidence=0.95, seed=Seed(0))
            for wrong in (0, secrets // 2)
        )
        assert all_right.ceiling - 2e-3 <= all_right.epsilon <= all_right.ceiling and all_right.epsilon > 1
        assert half_right.ceiling == all_right.ceiling and half_right.epsilon < half_right.ceiling


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "spec", [spec for spec in SPECS if spec not in ONE_DELTA], ids=lambda spec: "-".join(str(part) for part in spec.values())
)
def test_perfect_scores_prove_the_ceiling_of_delta(spec: dict[str, object]) -> None:
    estimator = plugins.build("audit.bounds.estimators", spec)
    for sides in SIDES[1:2]:
        result = claim_test.delta_bound(estimator, perfect_scores(sides), epsilon=1.0, confidence=0.95, seed=Seed(0))
        assert result.delta == pytest.approx(result.ceiling, rel=0.03) and result.ceiling > 0, (sides, result)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("spec", [spec for spec in SPECS if "family" not in spec], ids=str)
def test_a_claim_between_the_proof_of_perfect_scores_and_that_of_half_and_half_is_out_of_reach(spec: dict[str, object]) -> None:
    """Coins that fell unevenly prove less: a claim beyond that could not have been refuted by this audit."""
    even, uneven = (bound_scores(spec, perfect_scores(sides)) for sides in ((40, 40), (26, 54)))
    reach, low = uneven.ceiling, min(even.ceiling, uneven.ceiling)
    claim = Claim(
        epsilon=max(reach, (low + even.ceiling) / 2),
        delta=1e-5,
        adjacency=Adjacency.ADD_REMOVE,
        source="test",
        family=uneven.family,
    )
    assert judge.judge(claim, [uneven], evidence_valid=True).outcome is Outcome.OUT_OF_REACH
    nearer = replace(claim, epsilon=reach - 0.03 * reach)
    hidden = bound_scores(spec, replace(perfect_scores((26, 54)), values=np.arange(80) % 7 * 1.0))
    assert judge.judge(nearer, [hidden], evidence_valid=True).outcome is Outcome.CONSISTENT


def test_every_estimator_has_its_ceiling_here() -> None:
    names = set(plugins.names("audit.bounds.estimators"))
    assert names == {str(spec["kind"]) for spec in SPECS + SECRET_SPECS}
