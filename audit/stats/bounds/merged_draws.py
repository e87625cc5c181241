"""Draws of the least favourable pair of (epsilon, delta)-DP for up to some thousand scores: whole samples, merged by one sort.

Uniform variables are cells of 2^32; members are at the lower edge of theirs, nonmembers at the upper, and small positions rank
high: members only move up (docs/theory/independent-trials.md, "Both ends").
"""

import functools
import math

import numpy as np
from numpy.typing import NDArray

from audit.stats.arrays import Counts
from audit.stats.bounds.pair_draws import ROWS

MOST_SCORES = 4096  # above, fewer order statistics are drawn: `pair_draws`
CELL = 2.0**-32

# positions as 32-bit numbers, read as integers in the same order; the last bit is 0 for members, who stand first in a tie
Keys = NDArray[np.int32]


def block(members: int, nonmembers: int, index: int) -> tuple[NDArray[np.uint32], Keys]:
    """Draws for so many members and nonmembers, from a stream that these numbers fix: no caller can draw again."""
    blocks = stored(members, nonmembers)
    if index not in blocks:
        blocks[index] = draw(members, nonmembers, index)
    return blocks[index]


@functools.lru_cache(maxsize=2)
def stored(members: int, nonmembers: int) -> dict[int, tuple[NDArray[np.uint32], Keys]]:
    """Return the blocks drawn already, of the last two pairs of sizes: some hundred megabytes at most."""
    return {}


def draw(members: int, nonmembers: int, index: int) -> tuple[NDArray[np.uint32], Keys]:
    """`(ROWS, members)` cells and `(ROWS, nonmembers)` positions."""
    generator = np.random.default_rng([members, nonmembers, index, 32])
    cells = generator.integers(0, 1 << 32, (ROWS, members), dtype=np.uint32)
    places = generator.integers(0, 1 << 32, (ROWS, nonmembers), dtype=np.uint32)
    keys = ((places + 1.0) * CELL).astype(np.float32).view(np.int32)
    return cells, keys | 1


@functools.lru_cache(maxsize=16)
def _summing(cuts: tuple[int, ...], scores: int) -> NDArray[np.float32]:
    """`(scores, cuts)` matrix that sums the first places of each row."""
    return np.asarray(np.arange(scores)[:, None] < np.array(cuts), dtype=np.float32)


def members_on_top(cells: NDArray[np.uint32], nonmembers: Keys, cuts: Counts, *, epsilon: float, delta: float) -> Counts:
    """`(rows, cuts)` members among so many highest scores; never fewer for a larger epsilon or delta."""
    quantile = cells * CELL
    # the inverse of min(1, e^epsilon u + delta, 1 - e^-epsilon (1 - delta - u))
    place = np.maximum((quantile - delta) * math.exp(-epsilon), (1 - delta) - (1 - quantile) * math.exp(epsilon))
    keys = np.maximum(place, 0.0).astype(np.float32).view(np.int32) & ~1
    positions = np.concatenate([keys, nonmembers], axis=1)
    positions.sort(axis=1)
    are_members = (~positions & 1).astype(np.float32)  # counts are exact: whole numbers below 2^24
    return np.asarray(are_members @ _summing(tuple(cuts.tolist()), positions.shape[1]), dtype=np.int64)
