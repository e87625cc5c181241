"""Which share of a data set a model was trained on, from how many of its records an attack calls members."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

Array = np.ndarray
MOST_THRESHOLDS = 400


def member_rates(values: ArrayLike, included: ArrayLike, thresholds: ArrayLike) -> tuple[Array, Array, Array]:
    """False and true positive rates of each model at each threshold, and the share of all its records at or above it.

    Args:
        values: `(k, m)` scores, `included` `(k, m)` bool with members and nonmembers in every row, `thresholds` `(t,)`.

    Returns: Three arrays `(k, t)`.

    >>> fpr, tpr, share = member_rates([[0.0, 1.0, 2.0, 3.0]], [[False, False, True, True]], [1.0, 2.0])
    >>> fpr.tolist(), tpr.tolist(), share.tolist()
    ([[0.5, 0.0]], [[1.0, 1.0]], [[0.75, 0.5]])
    """
    rows = zip(np.asarray(values), np.asarray(included, dtype=bool), strict=True)
    curves = [[share_from(part, thresholds) for part in (row[~coins], row[coins], row)] for row, coins in rows]
    fpr, tpr, share = (np.stack(curve) for curve in zip(*curves, strict=True))
    return fpr, tpr, share


def share_from(values: ArrayLike, thresholds: ArrayLike) -> Array:
    """The share of `values` at or above each threshold.

    >>> share_from([1.0, 2.0, 3.0, 4.0], [3.0, 9.0]).tolist()
    [0.5, 0.0]
    """
    order = np.sort(np.asarray(values))
    return np.asarray(1 - np.searchsorted(order, np.asarray(thresholds), side="left") / len(order))


def candidate_thresholds(values: ArrayLike) -> Array:
    """At most `MOST_THRESHOLDS` scores, evenly spread by rank, among which a threshold is chosen."""
    pool = np.ravel(np.asarray(values, dtype=np.float64))
    return np.unique(np.quantile(pool, np.linspace(0, 1, min(len(pool), MOST_THRESHOLDS)), method="higher"))


def estimate_share(
    share: ArrayLike, fprs: ArrayLike, tprs: ArrayLike, confidence: float, records: int
) -> tuple[float, float, float]:
    """Return `usage_share` of a target at the threshold at which the references' rates are furthest apart.

    The threshold that a reference's own rates are read at is chosen by the other references alone, as the target's is.

    Args:
        share: `(t,)` share of the records that score at or above each threshold on the target; `fprs`, `tprs` `(k, t)`.
    """
    low, high = np.asarray(fprs), np.asarray(tprs)
    gaps = high - low
    total, models = gaps.sum(axis=0), np.arange(len(gaps))
    places = np.argmax(total - gaps, axis=1)
    called = float(np.asarray(share)[int(np.argmax(total))])
    return usage_share(called, low[models, places], high[models, places], confidence, records)


def usage_share(called: float, fprs: ArrayLike, tprs: ArrayLike, confidence: float, records: int) -> tuple[float, float, float]:
    """The share `p` of a data set that a model was trained on, with its limits; NaN and 0 to 1 if the calls say nothing.

    The point is `(called - FPR) / (TPR - FPR)` with mean rates of reference models. A reference of which a share `p` of the
    records were members would call `p TPR_j + (1 - p) FPR_j` of them members. The limits hold all `p` at which `called` is no
    further from the mean of that over references than Student's law lets one further model are: a model is one observation,
    and records of one model need not be independent. The variance of rates over references is raised by that of independent
    records at smoothed rates, since a few references of few records may agree by luck. If no `p` is left the target's rates
    are not the references', and nothing is estimated.

    Guarantee: the limits leave out the true share with probability `1 - confidence`, for a target with rates that follow the
        law of the references' (same training, members exchangeable), if the rates of a model are jointly normal; with a smaller
        probability if the target's share is not that of the references.
        Rates of few records are not normal: see the coverage in docs/use/trained-models.md.
    Args:
        called: share of the records that the attack calls members of the target.
        fprs, tprs: `(k,)` rates of the same attack on `k` references, at least two, each on its own non-members and members.
        records: of the data set; about half of them are members of a reference.

    References:
        Tong et al. 2025, "How much of my dataset did you use? Quantitative data usage inference in machine learning" (the
        point); Fieller 1954, "Some problems in interval estimation" (the limits).

    >>> share, low, high = usage_share(0.45, [0.1, 0.12, 0.08], [0.8, 0.82, 0.78], 0.95, 10_000)
    >>> round(share, 3), round(low, 2), round(high, 2)
    (0.5, 0.36, 0.64)
    """
    base, rise = np.asarray(fprs, dtype=np.float64), np.asarray(tprs, dtype=np.float64) - np.asarray(fprs, dtype=np.float64)
    models = len(base)
    if models < 2:
        return math.nan, 0.0, 1.0
    slope, gap = float(rise.mean()), called - float(base.mean())
    width = float(special.stdtrit(models - 1, (1 + confidence) / 2)) * math.sqrt(1 + 1 / models)
    spread = (np.cov(np.stack([base, rise])) + _binomial_spread(base, base + rise, records)) * width**2
    # gap - p slope, squared, is at most the spread of base + p rise: a quadratic inequality in p
    square, linear = slope**2 - spread[1, 1], -2 * (gap * slope + spread[0, 1])
    accepted = _shares_below_zero(square, linear, gap**2 - spread[0, 0])
    share = math.nan if slope <= 0 else min(1.0, max(0.0, gap / slope))
    return (math.nan, 0.0, 1.0) if accepted is None else (share, *accepted)


def _binomial_spread(fprs: Array, tprs: Array, records: int) -> Array:
    """Covariance of the false positive rate and of the rise to the true one, of independent records, half of them on a side."""
    side = max(records / 2, 1.0)
    low, high = ((float(rates.mean()) * side + 1) / (side + 2) for rates in (fprs, tprs))
    base, top = low * (1 - low) / side, high * (1 - high) / side
    return np.array([[base, -base], [-base, base + top]])


def _shares_below_zero(square: float, linear: float, constant: float) -> tuple[float, float] | None:
    """The least and the largest p in [0, 1] with `square p^2 + linear p + constant <= 0`; None if there is none."""
    roots = np.roots([square, linear, constant]) if square or linear else np.array([])
    real = roots[np.abs(roots.imag) < 1e-12].real
    ends = np.array([0.0, 1.0, *real[(real > 0) & (real < 1)]])
    ends.sort()
    middles = (ends[1:] + ends[:-1]) / 2
    inside = square * middles**2 + linear * middles + constant <= 0
    if not inside.any():
        return None
    places = np.flatnonzero(inside)
    return float(ends[places[0]]), float(ends[places[-1] + 1])
