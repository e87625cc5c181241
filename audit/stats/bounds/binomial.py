"""Exact limits on a binomial rate, and the epsilon that a pair of error rates implies."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from audit.stats.arrays import Array, Counts
from audit.stats.bounds.ranks import Memberships, geometric_grid, members_above, nonmembers_below


def rate_upper(count: ArrayLike, trials: ArrayLike, significance: float) -> Array:
    """The Clopper-Pearson upper limit on the rate behind `count` of `trials`.

    Guarantee: exceeds the rate except with probability at most `significance`, for independent trials.
    References: Clopper and Pearson 1934.

    >>> round(float(rate_upper(0, 100, 0.05)), 6)
    0.029513
    """
    hits, total = np.asarray(count, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    full = hits >= total
    limit = special.betaincinv(hits + 1, np.where(full, 1.0, total - hits), 1 - significance)
    if significance < 1e-8:  # 1 - significance loses digits there
        limit = special.betainccinv(hits + 1, np.where(full, 1.0, total - hits), significance)
    return np.asarray(np.where(full, 1.0, limit))


def rate_lower(count: ArrayLike, trials: ArrayLike, significance: float) -> Array:
    """The Clopper-Pearson lower limit: one minus the upper limit on the complement.

    >>> round(float(rate_lower(100, 100, 0.05)), 6)
    0.970487
    """
    return np.asarray(1 - rate_upper(np.asarray(trials) - np.asarray(count), trials, significance))


def exceedance_counts(trials: int, rate: float, significance: float) -> tuple[int, int]:
    """Return how many of `trials` events of a rate happen at most, and at least, each but with probability `significance`.

    >>> exceedance_counts(1000, 0.05, 0.025), exceedance_counts(1000, 0.0, 0.025)
    ((64, 37), (0, 0))
    """
    if not rate:
        return 0, 0
    return int(stats.binom.isf(significance, trials, rate)), int(stats.binom.ppf(significance, trials, rate))


def rates_epsilon(fpr_upper: ArrayLike, fnr_upper: ArrayLike, delta: float) -> Array:
    """The least epsilon at which a test with at most these error rates can exist, both directions; 0 if none is needed.

    `1 - fnr <= e^epsilon fpr + delta`, and the same with the errors exchanged (Kairouz, Oh and Viswanath 2015).

    >>> round(float(rates_epsilon(0.1, 0.2, 0.0)), 6)
    2.079442
    """
    fpr, fnr = np.asarray(fpr_upper, dtype=np.float64), np.asarray(fnr_upper, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        forward = np.log(np.maximum(1 - fnr - delta, 0)) - np.log(fpr)
        backward = np.log(np.maximum(1 - fpr - delta, 0)) - np.log(fnr)
    return np.asarray(np.maximum(0.0, np.fmax(forward, backward)))  # fmax: log 0 - log 0 is NaN and says nothing


def separation_ceiling(members: int, nonmembers: int, delta: float, significance: float) -> float:
    """Return what the Clopper-Pearson rectangle proves at one threshold that separates both sides perfectly.

    >>> round(separation_ceiling(100, 100, 0.0, 0.05), 3)
    3.281
    """
    fpr = float(rate_upper(0, nonmembers, significance / 2))
    fnr = float(rate_upper(0, members, significance / 2))
    epsilon = float(rates_epsilon(fpr, fnr, delta))
    return epsilon if math.isfinite(epsilon) else 0.0


def quantile(level: float, trials: int, rate: float) -> int:
    """Return the least count that so many trials of this rate stay at or under with chance `level`.

    >>> quantile(0.5, 100, 0.5), quantile(0.9, 100, 0.5)
    (50, 56)
    """
    return int(np.searchsorted(special.bdtr(np.arange(trials), trials, rate), level))


def two_sided(count: int, trials: int, rate: float) -> float:
    """A p-value of "each of `trials` comes true with probability `rate`": twice the smaller tail, at most 1.

    >>> round(two_sided(0, 10, 0.5) * 1024, 9), two_sided(5, 10, 0.5)
    (2.0, 1.0)
    """
    below = float(special.bdtr(count, trials, rate))
    return min(1.0, 2 * min(below, upper_tail(count, trials, rate)))


def upper_tail(count: int, trials: int, rate: float) -> float:
    """Return the chance that at least `count` of `trials` come true, each with probability `rate`.

    >>> upper_tail(10, 10, 0.5) * 1024, upper_tail(0, 10, 0.5)
    (1.0, 1.0)
    """
    return 1.0 if count == 0 else float(special.bdtrc(count - 1, trials, rate))


def by_rank_bound(ranking: Memberships, *, delta: float, significance: float, ratio: float) -> tuple[float, str, int]:
    """The best rectangle over thresholds at fixed ranks: `(epsilon, which, number of thresholds)`.

    Guarantee: exceeds a true epsilon with probability at most `significance` for independent, identically distributed
        scores on each side. The threshold is the k-th highest nonmember (k-th lowest member), k fixed in advance: its error
        rate on that side is Beta(k, n - k + 1) distributed or smaller, and given the threshold the errors of the other side
        are binomial. Each limit is taken at `significance / (2 thresholds)`.
    """
    members, nonmembers = int(ranking.sum()), int((~ranking).sum())
    high = geometric_grid(nonmembers, nonmembers // 2, ratio)
    low = geometric_grid(members, members // 2, ratio)
    level = significance / (2 * (len(high) + len(low)))
    from_top = rates_epsilon(
        order_rate_upper(high, nonmembers, level), rate_upper(members - members_above(ranking)[high - 1], members, level), delta
    )
    from_bottom = rates_epsilon(
        rate_upper(nonmembers - nonmembers_below(ranking)[low - 1], nonmembers, level),
        order_rate_upper(low, members, level),
        delta,
    )
    epsilons = np.concatenate([from_top, from_bottom])
    at = int(np.argmax(epsilons))
    description = f"nonmember {high[at]} from the top" if at < len(high) else f"member {low[at - len(high)]} from the bottom"
    return float(epsilons[at]), description, len(epsilons)


def order_rate_upper(rank: Counts, count: int, significance: float) -> Array:
    """The upper limit on the rate at the rank-th extreme of `count` scores, that score included: a Beta quantile."""
    return np.asarray(special.betainccinv(rank, count - rank + 1, significance))


def fixed_bound(members: Array, nonmembers: Array, threshold: float, *, delta: float, significance: float) -> float:
    """The rectangle of the rule "score >= threshold".

    Guarantee: exceeds a true epsilon with probability at most `significance` for independent trials and a threshold
        that does not depend on these scores.
    """
    false, false_negatives = int((nonmembers >= threshold).sum()), int((members < threshold).sum())
    fpr = rate_upper(false, len(nonmembers), significance / 2)
    fnr = rate_upper(false_negatives, len(members), significance / 2)
    return float(rates_epsilon(fpr, fnr, delta))


def best_threshold(members: Array, nonmembers: Array, *, delta: float, significance: float) -> float:
    """The threshold with the largest rectangle bound on these scores; to be used on other scores only."""
    candidates = np.unique(np.concatenate([members, nonmembers]))
    false = len(nonmembers) - np.searchsorted(np.sort(nonmembers), candidates, side="left")
    false_negatives = np.searchsorted(np.sort(members), candidates, side="left")
    epsilons = rates_epsilon(
        rate_upper(false, len(nonmembers), significance / 2), rate_upper(false_negatives, len(members), significance / 2), delta
    )
    return float(candidates[np.argmax(epsilons)])
