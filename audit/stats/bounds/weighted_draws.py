"""Draws of which every second one is moved to where a test refutes, with the weight that makes up for it.

Few plain draws reach what refutes at a small level, so paying for their luck costs power. Members moved up and nonmembers
moved down reach it often, and count by the ratio of densities. The theorem is in docs/theory/independent-trials.md, section
"Least favourable pair".
"""

import functools
import math

import numpy as np
from numpy.typing import NDArray

from audit.stats.bounds.critical_ranks import LUCK
from audit.stats.bounds.validation import Array, Counts

APART = 1.6  # how far the difference of the sides' means is moved, in its standard deviations
STAKE = 0.4  # of a bet that the tail is at most the level; below one half, as weights are at most 2
WHOLE = 2.0**32  # costs are whole numbers of this unit, so that their sums do not depend on an order

Limits = tuple[tuple[int, float], ...]  # (rows, level)


def move_apart(draws: NDArray[np.float32], members: int, first: int) -> Array:
    """Move each second row of standard normal draws, in place, and return the weights `(B,)` of all, from 0 to 2.

    Args:
        draws: `(B, members + nonmembers)`.
        members: in the first columns.
        first: number of the first row, in the stream that it is from.
    """
    nonmembers = draws.shape[1] - members
    error = math.sqrt(1 / members + 1 / nonmembers)
    rows = draws[(first + 1) % 2 :: 2]
    rows[:, :members] += np.float32(APART / (members * error))
    rows[:, members:] -= np.float32(APART / (nonmembers * error))
    lead = draws[:, :members].mean(axis=1, dtype=np.float64) - draws[:, members:].mean(axis=1, dtype=np.float64)
    return np.asarray(2 / (1 + np.exp(APART * lead / error - APART**2 / 2)))


def costs_of(weights: Array, limits: Limits) -> tuple[Counts, Counts]:
    """Return for each limit what each draw costs if it reaches a value, `(limits, B)`, and what refutes may cost, `(limits,)`.

    Guarantee: given the draws, but for a chance of `LUCK` for each limit, the test that refutes what costs no more has its
        level at most. If nothing may be spent the budget is negative, and nothing is refuted.
    """
    rows = np.arange(len(weights))
    costs = [np.where(rows < count, _costs(weights, level), 0) for count, level in limits]
    return np.array(costs, dtype=np.int64), np.array([_budget(*limit) for limit in limits], dtype=np.int64)


def _costs(weights: Array, level: float) -> Counts:
    return np.asarray(np.ceil((math.log1p(STAKE * level) - np.log1p(STAKE * (level - weights))) * WHOLE), dtype=np.int64)


@functools.lru_cache(maxsize=1024)
def _budget(rows: int, level: float) -> int:
    return math.floor((rows * math.log1p(STAKE * level) + math.log(LUCK)) * WHOLE)
