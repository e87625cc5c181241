"""What follows from the scores of one game alone: figures of each attack, bounds, negative controls, simulations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.bounds import budget as bounding
from audit.bounds import control, simulation
from audit.bounds.budget import Budget
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Certificate, Detectable, Estimate, NegativeControl
from audit.core.data import Array
from audit.core.events import Event
from audit.core.game import Game, Inclusion
from audit.core.game_results import AttackResult, GameResult, GuessResult, Histogram, RocCurve, TprAtFpr
from audit.core.lower_bounds import LowerBound
from audit.core.phrases import phrase
from audit.core.protocols import Estimator
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.experiment.games import stopping
from audit.experiment.games.hypothesis import ClaimLimits, StatedClaims
from audit.experiment.games.prepared_game import PreparedGame
from audit.stats.bounds import binomial, point_estimates, roc, secret_guesses
from audit.stats.bounds.ranks import expected_tpr, spread_evenly
from audit.stats.scoring import texts

UNCLAIMED = ClaimLimits()
TARGET_FPRS = (0.1, 0.01, 0.001)
CURVE_POINTS = 400
EQUAL = 1e-12  # difference of priors
HISTOGRAM_RANGE = (0.005, 0.995)
LARGE, SHRUNK = 1e300, 2.0**-8  # larger scores are binned after such shrinking, exact in floating point: no width overflows


def attack_result(
    scores: Scores,
    *,
    confidence: float,
    bounds: tuple[LowerBound, ...] = (),
    control: NegativeControl | None = None,
    claim_limits: ClaimLimits = UNCLAIMED,
) -> AttackResult:
    """Figures of one attack: AUC, ROC with band, TPR at low FPR, histogram, given bounds; `DataError` if one side is empty."""
    checks.both_sides(scores.included, f"attack '{scores.attack}'")
    claim_limits = claim_limits.of_group(scores.game.copies)
    guesses = guess_result(scores, confidence, claim_limits) if scores.game.choices > 1 else None
    if guesses is not None:  # rates over pairs of a true and a wrong value are no test of one record
        claim_limits = UNCLAIMED
    ranks = _without_ties(scores)
    has_area = min(len(scores.members), len(scores.nonmembers)) > 1
    low, high = roc.auc_interval(scores.members, scores.nonmembers, confidence) if has_area else (None, None)
    limits = zip(TARGET_FPRS, _limits(claim_limits), strict=True)
    return AttackResult(
        scorer=scores.attack,
        auc=roc.auc(scores.members, scores.nonmembers) if has_area else None,
        auc_lower=low,
        auc_upper=high,
        roc=_curve(*ranks, confidence),
        tpr_at=tuple(_tpr_at(scores, ranks, target, confidence, limit) for target, limit in limits),
        histogram=_histogram(scores),
        bounds=bounds,
        control=control,
        guesses=guesses,
    )


def guess_result(scores: Scores, confidence: float, claim_limits: ClaimLimits) -> GuessResult:
    """Return how often the value with the highest score was the true one, beside what its prior alone gives."""
    values, drawn, prior = scores.secrets
    right = int(secret_guesses.likeliest_values(values, drawn, prior).right.sum())
    level, choices = (1 - confidence) / 2, prior.shape[1]
    equal = bool(np.ptp(prior) < EQUAL)
    return GuessResult(
        secrets=len(drawn),
        right=right,
        lower=float(binomial.rate_lower(right, len(drawn), level)),
        upper=float(binomial.rate_upper(right, len(drawn), level)),
        baseline=float(prior.max(axis=1).mean()),
        imputed=int((prior.argmax(axis=1) == drawn).sum()),
        allowed=claim_limits.right_guesses(prior),
        exposure=float(texts.exposure(secret_guesses.rank_values(values, drawn), choices).mean()) if equal else None,
        null_exposure=texts.mean_null_exposure(choices) if equal else None,
    )


def _without_ties(scores: Scores) -> tuple[Array, Array]:
    """Both sides as distinct ranks, each tie spread evenly, so that every rate is the expected one and no seed decides it."""
    ranking = spread_evenly(scores.values, scores.included)
    ranks = np.arange(len(ranking), dtype=np.float64)[::-1]
    return ranks[ranking], ranks[~ranking]


def _curve(members: Array, nonmembers: Array, confidence: float) -> RocCurve:
    band = roc.band(members, nonmembers, confidence)
    keep = _thin(band.fpr, 1 / len(nonmembers))
    return RocCurve(
        fpr=tuple(band.fpr[keep].tolist()),
        tpr=tuple(band.tpr[keep].tolist()),
        lower=tuple(band.lower[keep].tolist()),
        upper=tuple(band.upper[keep].tolist()),
        confidence=confidence,
        band=band.method,
        members=len(members),
        nonmembers=len(nonmembers),
    )


def _thin(fpr: Array, resolution: float) -> Array:
    """At most `CURVE_POINTS` indices, spread evenly on a logarithmic axis, the last point of each FPR, ends kept."""
    last = np.flatnonzero(np.append(np.diff(fpr) > 0, True))
    if len(last) <= CURVE_POINTS:
        return last
    grid = np.geomspace(resolution, 1, CURVE_POINTS - 1)
    indices = np.searchsorted(fpr[last], grid, side="right") - 1
    points: Array = last[np.unique(np.concatenate([[0], np.maximum(indices, 0), [len(last) - 1]]))]
    return points


def _limits(claim_limits: ClaimLimits) -> list[float | None]:
    """The most true positives at each of the target rates; None if nothing is excluded."""
    if claim_limits.is_vacuous:
        return [None] * len(TARGET_FPRS)
    return list(claim_limits.tpr(np.array(TARGET_FPRS)).tolist())


def _tpr_at(scores: Scores, ranks: tuple[Array, Array], target: float, confidence: float, limit: float | None) -> TprAtFpr:
    """The point with the expected rate of tied scores; its count of members is that rate's, rounded down."""
    point = roc.tpr_at_fpr(*ranks, target, confidence)
    if point is None:
        return TprAtFpr.blank(target, limit)
    return TprAtFpr(
        target_fpr=target,
        tpr=expected_tpr(scores.members, scores.nonmembers, target),
        realised_fpr=point.realised_fpr,
        lower=point.lower,
        upper=point.upper,
        false_positives=point.false_positives,
        true_positives=point.true_positives,
        allowed=limit,
    )


def _histogram(scores: Scores) -> Histogram:
    """Counts in bins over all but the outermost scores, which the end bins take in."""
    finite = scores.values[np.isfinite(scores.values)]
    shrunk = SHRUNK if np.any(np.abs(finite) > LARGE) else 1.0
    members, nonmembers, finite = scores.members * shrunk, scores.nonmembers * shrunk, finite * shrunk
    ends = np.quantile(finite, HISTOGRAM_RANGE) if len(finite) else np.array([0.0, 1.0])
    low, high = float(ends[0]), float(ends[1])
    if low == high:
        half = max(0.5, abs(low) * 1e-9)
        low, high = low - half, high + half
    edges = np.linspace(low, high, 41)
    counts = [tuple(np.histogram(np.clip(side, low, high), edges)[0].tolist()) for side in (members, nonmembers)]
    return Histogram(edges=tuple((edges / shrunk).tolist()), members=counts[0], nonmembers=counts[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundTerms:
    """On what terms scores are bounded.

    Attributes:
        game: as an adversary with all its access played it.
        planned: target runs at most.
        estimators: of each attack, in the order of the scores.
        mechanism: what is claimed to have been run; None if no one says.
        watch: of a game that stops at the first proof, with estimators that bound all attacks together.
    """

    name: str
    game: Game
    planned: int
    estimators: tuple[tuple[Estimator, ...], ...]
    seed: Seed
    watch: stopping.StoppingRule
    mechanism: Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """What the limits of a game's figures hold for at once: each attack, so that the best can be picked, at every look."""

    looks: int
    attacks: int

    @property
    def count(self) -> int:
        return self.looks * self.attacks

    def named(self, curve: RocCurve, confidence: float) -> RocCurve:
        """Return a curve with a band computed at a share of the error rate as one that holds for all."""
        band = curve.band
        if self.attacks > 1:
            band = phrase("{band}, for all {attacks} attacks at once", band=band, attacks=self.attacks)
        if self.looks > 1:
            band = phrase("{band}, at any of {looks} looks", band=band, looks=self.looks)
        return replace(curve, confidence=confidence, band=band)


def make_terms(prepared_game: PreparedGame, watch: stopping.StoppingRule) -> BoundTerms:
    game_design = prepared_game.game_design
    return BoundTerms(
        name=game_design.name,
        game=prepared_game.game,
        planned=game_design.runs,
        estimators=tuple(attack.estimators for attack in game_design.attacks),
        seed=prepared_game.seed,
        watch=watch,
        mechanism=prepared_game.mechanism,
    )


def bound_game(scores: Sequence[Scores], terms: BoundTerms, stated_claims: StatedClaims, budget: Budget) -> GameResult:
    """All that follows from the scores alone: figures, bounds and negative controls, and simulations of this very game."""
    watch = terms.watch
    attacks = [
        _attack(
            score,
            () if watch.ends else estimators,
            stated_claims,
            budget,
            (terms.seed.child("bounds", index), Comparisons(looks=watch.looks, attacks=len(scores))),
        )
        for index, (score, estimators) in enumerate(zip(scores, terms.estimators, strict=True))
    ]
    certificates, detectable = _simulate(terms, stated_claims, budget, scores)
    return GameResult(
        name=terms.name,
        game=terms.game,
        attacks=tuple(attacks),
        certificates=certificates,
        detectable=detectable,
        watched=watch.result(scores, terms.seed.child("watched")) if watch.ends and scores else None,
    )


def _attack(
    scores: Scores,
    estimators: Sequence[Estimator],
    stated_claims: StatedClaims,
    budget: Budget,
    terms: tuple[Seed, Comparisons],
) -> AttackResult:
    seed, comparisons = terms
    by_coins = scores.game.inclusion is Inclusion.COINS
    result = attack_result(
        scores,
        confidence=bounding.share(budget.confidence, comparisons.count),
        bounds=bounding.bounds(scores, estimators, delta=budget.delta, confidence=budget.level, seed=seed),
        control=control.negative_control(scores, estimators, delta=budget.delta, confidence=budget.level, seed=seed)
        if estimators
        else None,
        claim_limits=stated_claims.claim_limits if by_coins else UNCLAIMED,
    )
    result = replace(result, roc=comparisons.named(result.roc, budget.confidence))
    return replace(result, access=scores.game.access, estimates=_estimates(scores, budget.delta))


def _estimates(scores: Scores, delta: float) -> tuple[Estimate, ...]:
    """Return the one-shot estimate of canary clients, as the literature on federated learning prints it; () for other games."""
    game = scores.game
    if game.inclusion is not Inclusion.COINS or game.adjacency is not Adjacency.ZERO_OUT or game.choices > 1:
        return ()
    value = point_estimates.gaussian_epsilon(scores.values[scores.included], scores.values[~scores.included], delta)
    warning = "two normal laws fitted to the scores; no confidence, and biased upward where epsilon is small"
    return () if value is None else (Estimate(epsilon=value, delta=delta, estimator="two_gaussians", warning=warning),)


def _simulate(
    terms: BoundTerms, stated_claims: StatedClaims, budget: Budget, scores: Sequence[Scores]
) -> tuple[tuple[Certificate, ...], tuple[Detectable, ...]]:
    bounding_attacks = tuple(estimators for estimators in terms.estimators if estimators)
    if not budget.certificates or not bounding_attacks:
        return (), ()
    path = simulation.Path(
        attacks=bounding_attacks,
        game=replace(terms.game, runs=terms.planned),
        mechanism=terms.mechanism,
        delta=budget.delta,
        level=budget.level,
        together=terms.watch.ends,
    )
    path = path.at_size_of(scores[0]) if scores else path
    return simulation.certify(path, budget.certificates), simulation.detectable(path, stated_claims.claims)
