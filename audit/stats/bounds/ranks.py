"""Scores reduced to what a monotone-invariant test may look at: the order in which memberships appear."""

import math

import numpy as np
from numpy.typing import NDArray

from audit.stats.arrays import Array, Counts

Memberships = NDArray[np.bool_]  # `(n,)` memberships from the highest score to the lowest: the rank configuration


def by_rank(values: Array, included: Memberships) -> Memberships:
    """Memberships from the highest score to the lowest; among equal scores nonmembers are first, against the attack.

    A test that grows as members move up refutes no more by this order than by any other (docs/theory/setting.md, "Ties").

    >>> by_rank(np.array([0.3, 0.1, 0.2, 0.3]), np.array([True, False, True, False])).tolist()
    [False, True, True, False]
    """
    values, included = np.asarray(values), np.asarray(included, dtype=bool)
    order = np.argsort(-values)  # by vectors, in a third of the time of a sort by two keys, which ties alone need
    falling = values[order]
    if not (falling[1:] < falling[:-1]).all():
        order = np.lexsort((included, -values))
    return included[order]


def members_above(ranking: Memberships) -> Counts:
    """`(n0,)`: how many members score above the k-th highest nonmember, at index k - 1.

    >>> members_above(np.array([True, False, True, False])).tolist()
    [1, 2]
    """
    return np.asarray(np.cumsum(ranking, dtype=np.int64)[~ranking])


def nonmembers_below(ranking: Memberships) -> Counts:
    """`(n1,)`: how many nonmembers score below the k-th lowest member, at index k - 1.

    >>> nonmembers_below(np.array([True, False, True, False])).tolist()
    [1, 2]
    """
    return members_above(~ranking[::-1])


def geometric_grid(count: int, largest: int, ratio: float) -> Counts:
    """Ranks 1, ratio, ratio^2, ... rounded, at most `largest`, never empty; depends on sizes alone.

    >>> geometric_grid(100, 50, 3.0).tolist()
    [1, 3, 9, 27]
    """
    top = max(1, min(largest, count))
    powers = ratio ** np.arange(int(np.log(top) / np.log(ratio) + 1e-9) + 1)
    return np.unique(np.rint(powers).astype(np.int64))


def spread_evenly(values: Array, included: Memberships) -> Memberships:
    """`(n,)` memberships from the highest score to the lowest, members of a tie spread evenly among its nonmembers.

    Behind r of b nonmembers of a tie are `floor(a r / b)` of its a members: each rate is the expected one up to one member.

    >>> spread_evenly(np.zeros(4), np.array([True, True, False, False])).tolist()
    [False, True, False, True]
    >>> spread_evenly(np.array([2.0, 1.0]), np.array([True, False])).tolist()
    [True, False]
    """
    included = np.asarray(included, dtype=bool)
    _, tie = np.unique(-np.asarray(values, dtype=np.float64), return_inverse=True)
    order = np.lexsort((included, tie))
    tie, side = tie[order], included[order]
    ties = int(tie[-1]) + 1 if len(tie) else 0
    sizes = [np.bincount(tie[side == membership], minlength=ties) for membership in (False, True)]
    number = np.empty(len(order), dtype=np.int64)  # of a score within its side of its tie, from 1 on
    for membership in (False, True):
        within = tie[side == membership]
        number[side == membership] = (
            1 + np.arange(len(within)) - (np.cumsum(sizes[int(membership)]) - sizes[int(membership)])[within]
        )
    behind = np.where(side, -(-number * sizes[False][tie] // np.maximum(sizes[True][tie], 1)), number)  # that many nonmembers
    return np.asarray(side[np.lexsort((side, behind, tie))])


def expected_tpr(members: Array, nonmembers: Array, target_fpr: float) -> float:
    """The expected true positive rate of the test that flags `floor(target_fpr n0)` nonmembers, equal scores by lot.

    >>> expected_tpr(np.array([1.0, 0.0]), np.zeros(10), 0.2)
    0.6
    """
    allowed = math.floor(target_fpr * len(nonmembers) * (1 + 1e-12))
    falling = -np.sort(-np.asarray(nonmembers))
    if allowed >= len(falling):
        return 1.0
    threshold = falling[allowed]  # the first nonmember that is not flagged for certain
    above, ties = int((members > threshold).sum()), int((members == threshold).sum())
    begin, size = int((falling > threshold).sum()), int((falling == threshold).sum())
    return (above + ties * (allowed - begin) / size) / len(members)
