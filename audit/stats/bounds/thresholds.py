"""Clopper-Pearson rectangles at thresholds that were not chosen by looking at the answers."""

import numpy as np
from scipy import special

from audit.stats.bounds.binomial import rate_upper, rates_epsilon
from audit.stats.bounds.ranks import Memberships, geometric_grid, members_above, nonmembers_below
from audit.stats.bounds.validation import Array, Counts


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
