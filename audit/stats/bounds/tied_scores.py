"""Rates of a test with tied scores: what flagging equal scores by lot gives on average, without a lot.

Among equal scores a test at a false positive rate between two thresholds flags each with one probability. Its expected rates
are on the line between the two points of the ROC, and no seed takes part.
"""

import math

import numpy as np

from audit.stats.bounds.ranks import Memberships
from audit.stats.bounds.validation import Array


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
