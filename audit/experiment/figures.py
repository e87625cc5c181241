"""From scores to an attack's figures: AUC, ROC with its band, TPR at low FPR, histogram."""

from __future__ import annotations

import math

import numpy as np

from audit.bounds import group_privacy as group
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, LowerBound, NegativeControl
from audit.core.data import Array
from audit.core.game_results import AttackResult, GuessResult, Histogram, RocCurve, TprAtFpr
from audit.core.results import LimitCurve
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import binomial, roc, secret_guesses
from audit.stats.curves import tradeoff
from audit.stats.scoring import texts

TARGET_FPRS = (0.1, 0.01, 0.001)
CURVE_POINTS = 400
EQUAL = 1e-12  # difference of priors
HISTOGRAM_RANGE = (0.005, 0.995)
LARGE, SHRUNK = 1e300, 2.0**-8  # larger scores are binned after such shrinking, exact in floating point: no width overflows


def attack_result(
    scores: Scores,
    *,
    confidence: float,
    seed: Seed,
    bounds: tuple[LowerBound, ...] = (),
    control: NegativeControl | None = None,
    claim: Claim | None = None,
    limit: LimitCurve | None = None,
) -> AttackResult:
    """Every figure of one attack: AUC, ROC with simultaneous band, TPR at low FPR, histogram, and the given bounds.

    Raises:
        DataError: one side is empty.
    """
    checks.both_sides(scores.included, f"attack '{scores.attack}'")
    if scores.game.copies > 1:
        claim, limit = None if claim is None else group.claim(claim, scores.game.copies), None
    guesses = guess_result(scores, confidence, claim, limit) if scores.game.choices > 1 else None
    if guesses is not None:  # rates over pairs of a true and a wrong value are no test of one record
        claim, limit = None, None
    members, nonmembers = _without_ties(scores, seed.child("ties"))
    low, high = roc.auc_interval(scores.members, scores.nonmembers, confidence)
    return AttackResult(
        scorer=scores.attack,
        auc=roc.auc(scores.members, scores.nonmembers),
        auc_lower=low,
        auc_upper=high,
        roc=_curve(members, nonmembers, confidence),
        tpr_at=tuple(
            _tpr_at(members, nonmembers, target, confidence, _tpr_limits(target, claim, limit)) for target in TARGET_FPRS
        ),
        histogram=_histogram(scores),
        bounds=bounds,
        control=control,
        guesses=guesses,
    )


def guess_result(scores: Scores, confidence: float, claim: Claim | None, limit: LimitCurve | None = None) -> GuessResult:
    """Return how often the value with the highest score was the true one, beside what its prior alone gives.

    Args:
        limit: of the claimed mechanism under adding or removing a record; with it the least of both is what is allowed.
    """
    values, drawn, prior = scores.secrets
    right = int(secret_guesses.guesses_of(values, drawn, prior).right.sum())
    level, choices = (1 - confidence) / 2, prior.shape[1]
    equal = bool(np.ptp(prior) < EQUAL)
    return GuessResult(
        secrets=len(drawn),
        right=right,
        lower=float(binomial.rate_lower(right, len(drawn), level)),
        upper=float(binomial.rate_upper(right, len(drawn), level)),
        baseline=float(prior.max(axis=1).mean()),
        imputed=int((prior.argmax(axis=1) == drawn).sum()),
        allowed=None if claim is None else _most_right(prior, claim, limit),
        exposure=float(texts.exposure(secret_guesses.ranks_of(values, drawn), choices).mean()) if equal else None,
        null_exposure=texts.mean_null_exposure(choices) if equal else None,
    )


def _most_right(prior: Array, claim: Claim, limit: LimitCurve | None) -> float:
    """The largest expected share of right guesses that a claim leaves, over all secrets.

    Add/remove and zeroing out: `1 - f(largest prior)`, f the (epsilon, delta) pair's or the mechanism's whole curve; replacing:
    the form for one value against the others where it is less.
    """
    largest = prior.max(axis=1)
    allowed = tradeoff.tpr_allowed(claim.epsilon, claim.delta, largest)
    if claim.adjacency is Adjacency.REPLACE_ONE and math.isfinite(claim.epsilon):
        factor = math.exp(min(claim.epsilon, 700.0)) * largest
        allowed = np.minimum(allowed, (factor + claim.delta * (1 - largest)) / (factor + 1 - largest))
    if limit is not None:
        allowed = np.minimum(allowed, np.interp(largest, limit.fpr, limit.tpr))
    return float(allowed.mean())


def _without_ties(scores: Scores, seed: Seed) -> tuple[Array, Array]:
    """Both sides as distinct ranks, ties broken at random."""
    order = np.lexsort((seed.numpy().random(len(scores.values)), scores.values))
    ranks = np.empty(len(order))
    ranks[order] = np.arange(len(order))
    return ranks[scores.included], ranks[~scores.included]


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


def _tpr_limits(target: float, claim: Claim | None, limit: LimitCurve | None) -> float | None:
    """The most true positives that the claim leaves an attack at this rate, by its (epsilon, delta) and its whole curve."""
    rates = []
    if claim is not None and math.isfinite(claim.epsilon):
        rates.append(float(tradeoff.tpr_allowed(claim.epsilon, claim.delta, target)))
    if limit is not None:
        rates.append(float(np.interp(target, limit.fpr, limit.tpr)))
    return min(rates, default=None)


def _tpr_at(members: Array, nonmembers: Array, target: float, confidence: float, limit: float | None) -> TprAtFpr:
    point = roc.tpr_at_fpr(members, nonmembers, target, confidence)
    if point is None:
        return TprAtFpr(
            target_fpr=target,
            tpr=None,
            realised_fpr=None,
            lower=None,
            upper=None,
            false_positives=None,
            true_positives=None,
            allowed=limit,
        )
    return TprAtFpr(
        target_fpr=target,
        tpr=point.tpr,
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
