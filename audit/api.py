"""The statistics as three functions on arrays; imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from audit import planning, plugins
from audit.core import checks
from audit.core.errors import AssumptionError, ConfigError, DataError
from audit.core.game import Access, Assumption, Game, Inclusion
from audit.core.mechanism import Adjacency, Mechanism
from audit.core.records import Array, Scores
from audit.core.results import LowerBound, RocCurve
from audit.core.seeds import Seed
from audit.stats import roc as roc_statistics

ESTIMATORS = "audit.estimators"
GAMES = ("one_run", "independent_trials")


def lower_bound(
    member_scores: ArrayLike,
    nonmember_scores: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    game: Game | str = "one_run",
    estimator: str | Mapping[str, Any] = "auto",
    mechanism: Mechanism | None = None,
    seed: int = 0,
) -> LowerBound:
    """A lower bound on epsilon at `delta` from attack scores (higher = more likely a member).

    Args:
        member_scores: one score for each canary that was trained on.
        nonmember_scores: one score for each canary that was left out.
        game: how the scores came about. "one_run": memberships were independent fair coins, scores may depend on each other.
            "independent_trials": each score is from a training of its own. Or a `Game`.
        estimator: a plug-in's name, a mapping `{"kind": name, ...}`, or "auto": `rank_exact` for independent
            trials, else `one_run`.
        mechanism: what is claimed to have been run, for estimators inside the family of DP-SGD.
        seed: of tie-breaks and simulations.

    Guarantee: that of the estimator, given that the game was played as stated.

    Raises:
        AssumptionError: the estimator relies on more than the game grants.
        DataError: a side is empty or holds NaN.

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> bound = lower_bound(draw.normal(2, 1, 500), draw.normal(0, 1, 500), delta=1e-5, game="independent_trials")
    >>> bound.estimator, 2.5 < bound.epsilon < 10
    ('rank_exact', True)
    """
    members, nonmembers = _side(member_scores, "member"), _side(nonmember_scores, "nonmember")
    count = len(members) + len(nonmembers)
    rules = _game(game, count) if isinstance(game, str) else game
    included = np.arange(count) < len(members)
    scores = Scores(values=np.concatenate([members, nonmembers]), included=included, game=rules, mechanism=mechanism)
    checks.both_sides(included, "lower_bound")
    spec = {"kind": _default(rules)} if estimator == "auto" else estimator
    chosen = plugins.build(ESTIMATORS, {"kind": spec} if isinstance(spec, str) else spec)
    rules.require(chosen.assumes, type(chosen).__name__)
    found: LowerBound = chosen.lower_bound(scores, delta=delta, confidence=confidence, seed=Seed(seed))
    return found


def roc(member_scores: ArrayLike, nonmember_scores: ArrayLike, *, confidence: float = 0.95) -> RocCurve:
    """The empirical ROC, every step of it, with a band that holds for the whole curve at once.

    Guarantee: that of `audit.stats.roc.band`, for scores independent and identically distributed on each side.

    >>> curve = roc([2.0, 3.0], [1.0, 2.0])
    >>> curve.fpr, curve.tpr
    ((0.0, 0.0, 0.5, 1.0), (0.0, 0.5, 1.0, 1.0))
    """
    members, nonmembers = _side(member_scores, "member"), _side(nonmember_scores, "nonmember")
    checks.both_sides(np.arange(len(members) + len(nonmembers)) < len(members), "roc")
    checks.open_probability(confidence, "confidence")
    band = roc_statistics.band(members, nonmembers, confidence)
    return RocCurve(
        fpr=tuple(band.fpr.tolist()),
        tpr=tuple(band.tpr.tolist()),
        lower=tuple(band.lower.tolist()),
        upper=tuple(band.upper.tolist()),
        confidence=confidence,
        band=band.method,
        members=len(members),
        nonmembers=len(nonmembers),
    )


def plan(
    *,
    delta: float,
    claim: float = 0.0,
    scores: int = 1000,
    game: Game | str = "one_run",
    confidence: float = 0.95,
    power: float = planning.POWER,
    estimators: tuple[str, ...] | None = None,
    mechanism: Mechanism | None = None,
) -> tuple[planning.PlanRow, ...]:
    """What an audit with so many scores could show, and the smallest true epsilon it would catch with chance `power`.

    Args:
        claim: the epsilon to be refuted; 0 asks for the proof of any leakage.
        scores: members and nonmembers together.
        estimators: names; None for all that the game's grants and `mechanism` allow.

    >>> rows = plan(delta=1e-5, claim=1.0, scores=200, game="independent_trials", estimators=("rank_exact",))
    >>> rows[0].estimator, 1 < rows[0].detectable < rows[0].ceiling * 4
    ('rank_exact', True)
    """
    rules = _game(game, scores) if isinstance(game, str) else game
    names = plugins.names(ESTIMATORS) if estimators is None else estimators
    if mechanism is None and estimators is None:
        names = tuple(name for name in names if name != "fdp_rank")
    chosen = {name: plugins.build(ESTIMATORS, {"kind": name}) for name in names}
    question = planning.Question(delta=delta, confidence=confidence, claim=claim, power=power)
    return planning.plan(chosen, [rules], question, mechanism=mechanism)


def _side(values: ArrayLike, name: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise DataError(f"{name} scores have shape {array.shape}; expected one dimension, one score for each canary")
    return checks.without_nan(array, f"{name} scores")


def _game(name: str, count: int) -> Game:
    """The game behind a short name."""
    if name not in GAMES:
        raise ConfigError(f"game is '{name}'; expected one of {', '.join(GAMES)}, or a Game")
    alone = name == "independent_trials"
    return Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=1 if alone else count,
        runs=count if alone else 1,
    )


def _default(game: Game) -> str:
    """The estimator that "auto" stands for."""
    if Assumption.INDEPENDENT_TRIALS in game.grants:
        return "rank_exact"
    if Assumption.INDEPENDENT_COINS in game.grants:
        return "one_run"
    raise AssumptionError(
        f"no estimator applies: memberships were not decided by independent fair coins ({game.describe()}); "
        "figures such as AUC and TPR can be stated, an epsilon cannot"
    )
