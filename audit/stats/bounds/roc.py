"""The receiver operating characteristic of a membership test, as far as the counts support it.

Points are never interpolated, and every band holds for the whole curve at once.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.bounds import ranks, roc_band
from audit.stats.bounds.roc_band import ThresholdPath
from audit.stats.bounds.validation import fraction, side

MOST_RATES = 500  # at which limits are computed; between them they are those of the neighbour on the safe side
MOST_CUTS = 400  # where the hinges of `auc_interval` begin


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Band:
    """The empirical ROC and, at each of its false positive rates, a band on the true ROC.

    Attributes:
        fpr, tpr: `(k,)` points of `curve`.
        lower, upper: `(k,)`; the population's best TPR at FPR `fpr[i]` is in `[lower[i], upper[i]]`, for all i at once.
    """

    fpr: Array
    tpr: Array
    lower: Array
    upper: Array
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TprPoint:
    """The last ROC point at or under a false positive rate, with the counts behind it.

    Attributes:
        lower, upper: band on the population's TPR at FPR `target_fpr`; simultaneous over all targets.
        false_positives, true_positives: scores of either side at or above the point's threshold.
    """

    target_fpr: float
    tpr: float
    realised_fpr: float
    lower: float
    upper: float
    false_positives: int
    true_positives: int


def auc(members: Array, nonmembers: Array) -> float:
    """The probability that a random member outscores a random nonmember, ties counting half; O(n log n). Raises `ValueError`
    if a side is empty, not one-dimensional, or holds NaN.

    >>> auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    members, nonmembers = side(members, "member"), side(nonmembers, "nonmember")
    ascending = np.sort(nonmembers)
    below = np.searchsorted(ascending, members, side="left").sum(dtype=np.int64)
    not_above = np.searchsorted(ascending, members, side="right").sum(dtype=np.int64)
    return float((below + not_above) / (2 * len(members) * len(nonmembers)))


def auc_interval(members: Array, nonmembers: Array, confidence: float) -> tuple[float, float]:
    """Finite-sample limits `(lower, upper)` on the population's AUC; `ValueError` as `auc`, or for a confidence outside (0,
    1).

    Guarantee: covers with probability at least `confidence` when the scores are independent and identically distributed on
        each side: the AUC is a mean over `min(n1, n0)` independent pairs, whose convex functions the binomial bounds.

    References:
        Hoeffding 1963, "Probability inequalities for sums of bounded random variables"; Bentkus 2004, "On
        Hoeffding's inequalities".
    """
    area, pairs = auc(members, nonmembers), min(len(members), len(nonmembers))
    level = (1 - fraction(confidence, "confidence")) / 2
    return _least_rate(area, pairs, level), 1 - _least_rate(1 - area, pairs, level)


def _least_rate(share: float, pairs: int, level: float) -> float:
    """The largest rate below `share` at which a share so large has at most the chance `level`, by hinges at several cuts."""
    successes = share * pairs
    below = np.unique(np.rint(np.geomspace(1, max(pairs, 2), MOST_CUTS)))
    cuts = np.ceil(successes) - below
    cuts = cuts[cuts >= 0]

    def surprising(rate: float) -> bool:
        # E (B - cut)_+ = n p P[Bin(n - 1, p) >= cut] - cut P[Bin(n, p) > cut], B being Bin(n, p)
        at_least = special.betainc(cuts + 1, pairs - cuts, rate)
        before = np.where(cuts > 0, special.betainc(np.maximum(cuts, 1), np.maximum(pairs - cuts, 1), rate), 1.0)
        hinge = pairs * rate * before - cuts * at_least
        return bool((hinge / (successes - cuts)).min(initial=np.inf) <= level)

    lower, upper = 0.0, share
    for _ in range(60):
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if surprising(middle) else (lower, middle)
    return lower


def curve(members: Array, nonmembers: Array) -> tuple[Array, Array]:
    """Step points `(fpr, tpr)` of the rule "score >= t", one for each distinct score, from (0, 0) to (1, 1); `ValueError` as
    `auc`.

    Members and nonmembers that share a score move together, so a tie is a diagonal step.

    >>> fpr, tpr = curve(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    >>> fpr.tolist(), tpr.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    false, true = _counts(members, nonmembers)
    return false / len(nonmembers), true / len(members)


def _counts(members: Array, nonmembers: Array) -> tuple[Counts, Counts]:
    """False and true positives of "score >= t" for each distinct score, falling, after the point (0, 0)."""
    members, nonmembers = side(members, "member"), side(nonmembers, "nonmember")
    scores = np.concatenate([members, nonmembers])
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)
    is_member = order < len(members)
    true = np.cumsum(is_member, dtype=np.int64)[last]
    false = np.cumsum(~is_member, dtype=np.int64)[last]
    return np.concatenate([[0], false]), np.concatenate([[0], true])


def band(members: Array, nonmembers: Array, confidence: float, *, any_curve: bool = False) -> Band:
    """The empirical ROC with a simultaneous confidence band on the population's ROC; `ValueError` as `auc_interval`.

    Among equal scores the upper limits take members to be first and the lower limits nonmembers, so ties widen the band.

    Args:
        any_curve: for a level that is proved for every curve; the band is then about 1.5 times as wide (1.9 for 10,000 scores).

    Guarantee: for independent, identically distributed scores on each side the population's curve `R(x)`, the largest TPR of
        any threshold with FPR at most x, is within the band at every x at once with about probability `confidence` or more
        if nothing leaks and for the other concave curves that were simulated; not proved, and curves like a staircase may
        get 3 % less (docs/theory/roc.md, "Bands on a ROC"). With `any_curve` the probability is at least `confidence` whatever
        the curve: each side's survival function is banded at level `sqrt(confidence)` (`bands.survival_band`).

    References:
        Campbell 1994, "Advances in statistical methodology for the evaluation of diagnostic and laboratory tests";
        Berk and Jones 1979; Owen 1995, "Nonparametric likelihood confidence bands for a distribution function".
    """
    false, true = _counts(members, nonmembers)
    rates = false / len(nonmembers)
    limits = _rectangle_limits if any_curve else _limits
    lower, upper = limits(members, nonmembers, confidence, rates)
    method = "any curve, equal local levels of both sides" if any_curve else "simulated level, concave curves"
    return Band(fpr=rates, tpr=true / len(members), lower=lower, upper=upper, method=method)


def _limits(members: Array, nonmembers: Array, confidence: float, rates: Array) -> tuple[Array, Array]:
    """Limits on the population's ROC at each of `rates`, ascending, from the pairs of rates that some threshold leaves."""
    critical = roc_band.critical_value(len(members), len(nonmembers), confidence)
    values = np.concatenate([members, nonmembers])
    included = np.arange(len(values)) < len(members)
    # `by_rank` puts False first among equal scores: exchanged sides put members first
    members_last = ThresholdPath.of(ranks.by_rank(values, included))
    members_first = ThresholdPath.of(~ranks.by_rank(values, ~included))
    grid = np.unique(rates)
    if len(grid) > MOST_RATES:
        index = np.sin(np.linspace(0, math.pi / 2, MOST_RATES)) ** 2 * (len(grid) - 1)
        grid = grid[np.unique(np.rint(index).astype(np.int64))]
    lower = roc_band.lower_limits(members_last, grid, critical)[np.searchsorted(grid, rates, side="right") - 1]
    upper = roc_band.upper_limits(members_first, grid, critical)[np.searchsorted(grid, rates, side="left")]
    return lower, upper


def _rectangle_limits(members: Array, nonmembers: Array, confidence: float, rates: Array) -> tuple[Array, Array]:
    """Limits at each of `rates` that hold for every curve: corners of the rectangles of two one-sample bands."""
    false, true = _counts(members, nonmembers)
    share = math.sqrt(fraction(confidence, "confidence"))
    of_members, of_nonmembers = roc_band.survival_band(len(members), share), roc_band.survival_band(len(nonmembers), share)
    # thresholds run from strict (nothing above) to lenient; all four columns are non-decreasing
    fpr_low, fpr_high = of_nonmembers.lower[false], of_nonmembers.upper[false]
    tpr_low, tpr_high = of_members.lower[true], of_members.upper[true]
    # the point (0, 0) is a threshold above every possible score: its rates are exactly zero
    fpr_high[0] = tpr_high[0] = 0.0
    fpr_low[-1] = tpr_low[-1] = 1.0
    upper_index = np.searchsorted(fpr_high, rates, side="right") - 1
    surely_above = np.searchsorted(fpr_low, rates, side="right")
    upper = np.where(surely_above < len(tpr_high), tpr_high[np.minimum(surely_above, len(tpr_high) - 1)], 1.0)
    return tpr_low[np.maximum(upper_index, 0)], upper


def tpr_at_fpr(members: Array, nonmembers: Array, target_fpr: float, confidence: float) -> TprPoint | None:
    """The last ROC point with FPR at or under `target_fpr`, or None if that is below one over the nonmembers; `ValueError` as
    `auc_interval`, or for a target outside (0, 1].

    Guarantee: `lower <= R(target_fpr) <= upper` for all targets at once, as in `band`.

    >>> point = tpr_at_fpr(np.array([2.0, 3.0]), np.array([1.0, 2.0]), 0.4, 0.95)
    >>> point is None
    True
    """
    if not 0 < target_fpr <= 1:
        raise ValueError(f"target_fpr is {target_fpr}; expected a rate in (0, 1]")
    false, true = _counts(members, nonmembers)
    if target_fpr * len(nonmembers) < 1 - 1e-9:
        return None
    at = int(np.searchsorted(false, target_fpr * len(nonmembers) * (1 + 1e-12), side="right")) - 1
    lower, upper = _limits(members, nonmembers, confidence, np.array([target_fpr]))
    return TprPoint(
        target_fpr=target_fpr,
        tpr=float(true[at] / len(members)),
        realised_fpr=float(false[at] / len(nonmembers)),
        lower=float(lower[0]),
        upper=float(upper[0]),
        false_positives=int(false[at]),
        true_positives=int(true[at]),
    )
