"""Draws of the least favourable pair that serve every curve at once: more members at the top wherever a curve allows more.

With order statistics u and w of uniform variables, at least a members are among the k highest scores if `w_(a) <= g(u_(k - a +
1))`: only g changes from claim to claim (docs/theory/independent-trials.md, "Both ends").
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from audit.stats.arrays import Array, Counts

ROWS = 2000  # in a block of draws
BLOCKS = 5  # that are kept at a time
RANKS = 2048  # order statistics a side; of larger samples the others are bounded by their neighbours

Curve = Callable[[Array], Array]  # the largest true positive rate at each false positive rate; non-decreasing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderStatistics:
    """Some of the order statistics of uniform samples, the same ranks in each row.

    Attributes:
        size: of each sample.
        ranks: `(m,)` rising, from 1 to `size`.
        values: `(rows, m)`, ascending along rows.
    """

    size: int
    ranks: Counts
    values: Array

    def only(self, rows: Counts) -> OrderStatistics:
        """Some of the samples."""
        return OrderStatistics(size=self.size, ranks=self.ranks, values=self.values[rows])


def kept_ranks(size: int) -> Counts:
    """Ranks in 1 ... `size`: all of them, or `RANKS` spaced by the standard error of an empirical distribution.

    >>> kept_ranks(4).tolist()
    [1, 2, 3, 4]
    """
    if size <= RANKS:
        return np.arange(1, size + 1)
    angle = np.linspace(0.0, math.pi / 2, RANKS)
    return np.unique(np.clip(np.rint(size * np.sin(angle) ** 2).astype(np.int64), 1, size))


def draw(size: int, generator: np.random.Generator) -> OrderStatistics:
    """`ROWS` samples of `size` uniform variables; order statistics are sums of exponential spacings over their total."""
    ranks = kept_ranks(size)
    steps = np.diff(ranks, prepend=0, append=size + 1)
    places = generator.standard_gamma(steps.astype(np.float64), (ROWS, len(steps)))
    np.cumsum(places, axis=1, out=places)
    places /= places[:, -1:]
    return OrderStatistics(size=size, ranks=ranks, values=np.ascontiguousarray(places[:, :-1]))


@functools.lru_cache(maxsize=BLOCKS)
def block(members: int, nonmembers: int, index: int) -> tuple[OrderStatistics, OrderStatistics]:
    """Draws for so many members and nonmembers, from a stream that these numbers fix: no caller can draw again."""
    generator = np.random.default_rng([members, nonmembers, index])
    return draw(members, generator), draw(nonmembers, generator)


def members_on_top(members: OrderStatistics, nonmembers: OrderStatistics, cuts: Counts, curve: Curve) -> Counts:
    """`(rows, cuts)` members among so many highest scores, or more if ranks are left out; never fewer for a larger curve."""
    # a nonmember that was left out counts where the next one kept is, further down, and members up to the next one kept
    # are counted: both only put more members on top
    row_of_member, row_of_nonmember = (np.arange(len(side.values))[:, None] * len(side.ranks) for side in (members, nonmembers))
    kept_from = np.searchsorted(nonmembers.ranks, np.arange(nonmembers.size + 1))  # index of the first rank kept from each on
    lowest = np.zeros((len(members.values), len(cuts)), dtype=np.int64)  # so many of the ranks kept are on top
    highest = np.full_like(lowest, len(members.ranks))
    for _ in range(len(members.ranks).bit_length()):
        middle = (lowest + highest + 1) // 2
        index = np.maximum(middle - 1, 0)
        behind = cuts - members.ranks[index] + 1  # the nonmember that has to be behind this member
        place = nonmembers.values.take(row_of_nonmember + kept_from[np.clip(behind, 1, nonmembers.size)])
        ahead = members.values.take(row_of_member + index) <= curve(place)
        holds = (middle == 0) | (behind > nonmembers.size) | ((behind > 0) & ahead)
        lowest, highest = np.where(holds, middle, lowest), np.where(holds, highest, middle - 1)
    following = np.append(members.ranks, members.size + 1)
    return np.asarray(np.minimum(following[lowest] - 1, cuts))
