"""Bounds and curves from scores, as functions on arrays; torch is never imported.

What a function computes with is imported when it is called, so that its name alone costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from audit.core import checks, score_values
from audit.core.adjacency import Adjacency
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.game import Assumption, Game
from audit.core.seeds import Seed
from audit.core.views import Scores

if TYPE_CHECKING:
    from audit.bounds.steps import StepProducts, StepScores
    from audit.core.claims import CertifiedBound, DeltaBound, Estimate, NoNoiseFits, StepBound
    from audit.core.events import Event
    from audit.core.game_results import RocCurve
    from audit.core.protocols import Estimator


def lower_bound(
    member_scores: ArrayLike,
    nonmember_scores: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    game: Game | str = "one_run",
    estimator: str | Mapping[str, Any] = "auto",
    family: str | None = None,
    mechanism: Event | None = None,
    seed: int = 0,
    certificates: int | None = None,
    attacks: int = 1,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
) -> CertifiedBound:
    """A lower bound on epsilon at `delta` from attack scores (higher = more likely a member).

    Args:
        member_scores: one score for each canary that was trained on.
        nonmember_scores: one score for each canary that was left out.
        game: how the scores came about. "one_run": memberships were independent fair coins, scores may depend on each other.
            "independent_trials": each score is from its own training. Or a `Game`.
        estimator: a plug-in's name, a mapping `{"kind": name, ...}`, or "auto": for any mechanism `both_ends` if trials
            are independent, else `one_run`; inside a family `gaussian` ("gdp") or `fdp_rank` ("dp_sgd"), else `one_run_fdp`.
        family: of trade-off curves that the claim asserts, for "auto": None, "gdp" or "dp_sgd" (needs `mechanism`). The
            bound then holds inside that family only, and says so. Refused beside a named estimator.
        mechanism: what is claimed to have been run, for estimators inside the family of DP-SGD.
        seed: for estimators of a third party that draw; those here draw from streams that the numbers of scores fix.
        attacks: how many score columns of the same canaries are tried, of which the best bound is kept: each is made at
            `(1 - confidence) / attacks`, so that all hold together.
        adjacency: which neighbouring data sets the coins decided between, if `game` is a name; "replace_one" states that
            another record stood instead of each that was left out.
        certificates: simulated audits behind each of the bound's certificates: how often this estimator, at this number of
            scores and this confidence, is wrong. None takes what fits into about a quarter of a second each (kept for later
            calls of the same size), 0 none. More than 200 are made whatever they take, up to about ten minutes a law.

    Guarantee: that of the estimator, given that the game was played as stated.

    Raises:
        AssumptionError: the estimator relies on more than the game grants, or the scores cannot come from that game
            (`audit.bounds.plausibility`; what only looks odd is in `remarks`).
        ConfigError: a family or adjacency that does not exist, or more certificates than end in about ten minutes.
        DataError: a side is empty, or holds NaN, text, complex or masked values.

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> bound = lower_bound(draw.normal(2, 1, 500), draw.normal(0, 1, 500), delta=1e-5, game="independent_trials")
    >>> bound.estimator, 2.5 < bound.epsilon < 10, [certificate.kept for certificate in bound.certificates]
    ('both_ends', True, [True, True, True])
    """
    from audit.bounds import plausibility, simulation
    from audit.bounds.budget import share
    from audit.core.claims import CertifiedBound

    scores = _scores(member_scores, nonmember_scores, game, mechanism, Adjacency.by_name(adjacency))
    instance = _estimator(estimator, family, scores.game)
    odd = plausibility.remarks(scores, instance.assumes)
    if attacks < 1:
        raise ConfigError(f"attacks is {attacks}; expected how many score columns were tried, at least 1")
    level = share(checks.confidence(confidence), attacks)
    bound = instance.lower_bound(scores, delta=delta, confidence=level, seed=Seed(seed))
    path = simulation.find_path(instance, scores, delta=delta, level=level)
    if certificates is None:
        certificate_rows = simulation.quick(path)
    else:
        certificate_rows = simulation.certify(path, certificates) if certificates else ()
    values = {field.name: getattr(bound, field.name) for field in fields(bound)}
    return CertifiedBound(**values, game=scores.game, certificates=certificate_rows, remarks=odd)


def delta_lower_bound(
    member_scores: ArrayLike,
    nonmember_scores: ArrayLike,
    *,
    epsilon: float,
    confidence: float = 0.95,
    game: Game | str = "one_run",
    estimator: str | Mapping[str, Any] = "auto",
    family: str | None = None,
    mechanism: Event | None = None,
    seed: int = 0,
) -> DeltaBound:
    """A lower bound on delta at `epsilon`: the largest delta such that (epsilon, delta)-DP is refuted.

    Arguments are those of `lower_bound`. Scores of one run prove little of delta, however good they are (`ceiling`), since a
    mechanism may give one coin of many away. Independent trials prove much more.

    Guarantee: `delta` exceeds the true delta at `epsilon` with probability at most `1 - confidence`, given that the game was
        played as stated (`audit.bounds.claim_test.delta_refuted`); inside a family, that of the member that is refuted.

    Raises:
        AssumptionError: the estimator relies on more than the game grants.
        ConfigError: an estimator with tests that are not nested in delta, or a family beside a named estimator.
        DataError: a side is empty or holds NaN.

    >>> bound = delta_lower_bound(range(100, 200), range(100), epsilon=1.0, game="independent_trials")
    >>> 0.5 < bound.delta <= bound.ceiling
    True
    """
    from audit.bounds import claim_test, granted

    checks.confidence(confidence)
    scores = _scores(member_scores, nonmember_scores, game, mechanism)
    if estimator == "auto" and family is None:
        estimator = granted.for_delta(scores.game)
    instance = _estimator(estimator, family, scores.game)
    return claim_test.delta_bound(instance, scores, epsilon=epsilon, confidence=confidence, seed=Seed(seed))


def step_bound(
    steps: StepProducts | StepScores, *, mechanism: Event, delta: float, confidence: float = 0.95, seed: int = 0
) -> StepBound | NoNoiseFits:
    """White-box: the noise of one step from what single steps showed, composed over all steps of `mechanism`.

    Args:
        steps: `StepProducts`, along directions that were fixed beforehand and with the ordinary gradients taken off:
            independent and identically distributed trials, thousands from one or two trainings. Or `StepScores`, any others:
            bets on the sampler's coins, which hold for scores that depend on earlier steps, and prove less.
        mechanism: the claimed sample rate, number of steps and noise; the noise is what is put to the test.

    Guarantee: `parameter` is below the true noise multiplier of a step with probability at most `1 - confidence`, when each
        step is a Poisson-subsampled Gaussian with the claimed rate, all with independent noise of the same size. `epsilon` is
        that of all steps composed, inside the family "dp_sgd"; the claimed rate and steps are taken as they are (`trust`).
        If the sampling as claimed is refuted with any noise and with none, the result is `NoNoiseFits`, which has no epsilon.
        An infinite `ceiling` says that perfect scores would have shown that.

    References:
        Nasr et al. 2023, arXiv 2302.07956.

    Raises:
        ConfigError: a confidence below 1/2, or no coins to bet on.
        DataError: no step on one side.
        UnsupportedMechanism: the mechanism is not DP-SGD.
        ExecutionMismatch: canaries took part more or less often than the claimed rate explains.
    """
    from audit.bounds import steps as single_steps

    checks.confidence(confidence)
    return single_steps.bound(steps, mechanism, delta=delta, confidence=confidence, seed=Seed(seed))


def estimates(
    member_scores: ArrayLike, nonmember_scores: ArrayLike, *, delta: float, confidence: float = 0.95, seed: int = 0
) -> tuple[Estimate, ...]:
    """Figures that other tools print for these scores. None of them is a bound; each says why.

    >>> [figure.estimator for figure in estimates([2.0, 3.0, 4.0], [0.0, 1.0, 2.5], delta=1e-5)]
    ['plug_in', 'jeffreys', 'joint_beta', 'bootstrap_low', 'bootstrap_high']
    """
    from audit.core.claims import Estimate
    from audit.stats.bounds import point_estimates

    members, nonmembers = _sides(member_scores, nonmember_scores, "estimates")
    checks.probability(delta, "delta")
    significance = 1 - checks.confidence(confidence)
    counts = (*point_estimates.best_counts(members, nonmembers), (len(members), len(nonmembers)), delta)
    low, high = point_estimates.bootstrap(members, nonmembers, delta, Seed(seed).child("bootstrap").numpy())
    description = "at the threshold that looks best on these scores, which is not paid for"
    figures = (
        ("plug_in", point_estimates.plug_in(*counts), f"observed rates {description}"),
        ("jeffreys", point_estimates.jeffreys(*counts, significance), f"Jeffreys limits {description}"),
        ("joint_beta", point_estimates.joint_beta(*counts, significance), f"credible bound {description}"),
        ("bootstrap_low", low, "5 % quantile over resampled scores; no finite-sample guarantee"),
        ("bootstrap_high", high, "95 % quantile over resampled scores; no finite-sample guarantee"),
    )
    return tuple(Estimate(epsilon=value, delta=delta, estimator=name, warning=warning) for name, value, warning in figures)


def roc(
    member_scores: ArrayLike, nonmember_scores: ArrayLike, *, confidence: float = 0.95, any_curve: bool = False
) -> RocCurve:
    """The empirical ROC, every step of it, with a band that holds for the whole curve at once.

    Args:
        any_curve: for a level that is proved for every curve, by a band about 1.5 times as wide (1.9 for 10,000 scores).

    Guarantee: that of `audit.stats.bounds.roc.band`, for scores independent and identically distributed on each side: the
        level is that of concave curves, by simulation, unless `any_curve` is asked for.

    >>> curve = roc([2.0, 3.0], [1.0, 2.0])
    >>> curve.fpr, curve.tpr
    ((0.0, 0.0, 0.5, 1.0), (0.0, 0.5, 1.0, 1.0))
    """
    from audit.core.game_results import RocCurve
    from audit.stats.bounds import roc as roc_statistics

    members, nonmembers = _sides(member_scores, nonmember_scores, "roc")
    checks.confidence(confidence)
    band = roc_statistics.band(members, nonmembers, confidence, any_curve=any_curve)
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


def _scores(
    member_scores: ArrayLike,
    nonmember_scores: ArrayLike,
    game: Game | str,
    mechanism: Event | None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Scores:
    sides = [score_values.read(member_scores, "member scores"), score_values.read(nonmember_scores, "nonmember scores")]
    score_values.refuse_memberships(*sides)
    values = score_values.on_common_scale(sides)
    included = np.arange(len(values)) < len(sides[0])
    checks.both_sides(included, "a bound")
    scored_game = Game.of_scores(game, len(included), adjacency) if isinstance(game, str) else game
    return Scores(values=values, included=included, game=scored_game, mechanism=mechanism)


def _estimator(estimator: str | Mapping[str, Any], family: str | None, game: Game) -> Estimator:
    from audit import plugins

    if estimator != "auto" and family is not None:
        raise ConfigError(
            f"family is '{family}' beside the estimator {estimator!r}; family chooses an estimator where none is named. Leave "
            f"one of them out, or give the estimator its own option, as in {{'kind': 'rank_exact', 'family': 'gdp'}}"
        )
    spec = _default_in(family, game) if estimator == "auto" else estimator
    instance: Estimator = plugins.build(plugins.FOLDERS["estimators"], {"kind": spec} if isinstance(spec, str) else spec)
    game.require(instance.assumes, type(instance).__name__)
    return instance


def _sides(member_scores: ArrayLike, nonmember_scores: ArrayLike, user: str) -> tuple[Array, Array]:
    """Both sides as float64, each with a score at least."""
    members, nonmembers = (
        score_values.read(values, name).astype(np.float64)
        for values, name in ((member_scores, "member scores"), (nonmember_scores, "nonmember scores"))
    )
    checks.both_sides(np.arange(len(members) + len(nonmembers)) < len(members), user)
    return members, nonmembers


def _default_in(family: str | None, game: Game) -> Mapping[str, Any]:
    """The estimator for a claim that asserts a family of trade-off curves, or none."""
    from audit.bounds import granted

    if family is None:
        return {"kind": granted.for_epsilon(game)}
    estimator_of = {"gdp": "gaussian", "dp_sgd": "fdp_rank"}
    if family not in estimator_of:
        raise ConfigError(f"family is '{family}'; expected one of {', '.join(estimator_of)}, or None for any mechanism")
    if Assumption.INDEPENDENT_TRIALS in game.grants:
        return {"kind": estimator_of[family]}
    return {"kind": "one_run_fdp", "family": family}
