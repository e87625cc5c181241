"""Scores reduced to what a monotone-invariant test may look at: the order in which memberships appear."""

import numpy as np
from numpy.typing import NDArray

from audit.stats.bounds.validation import Array, Counts

Memberships = NDArray[np.bool_]  # `(n,)` memberships from the highest score to the lowest: the rank configuration


def by_rank(values: Array, included: Memberships) -> Memberships:
    """Memberships from the highest score to the lowest; among equal scores nonmembers are first, against the attack.

    A test that grows as members move up refutes no more by this order than by any other (docs/theory/setting.md, "Ties").

    >>> by_rank(np.array([0.3, 0.1, 0.2, 0.3]), np.array([True, False, True, False])).tolist()
    [False, True, True, False]
    """
    return np.asarray(included, dtype=bool)[np.lexsort((included, -np.asarray(values)))]


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
