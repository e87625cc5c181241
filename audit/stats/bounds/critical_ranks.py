"""How many simulated draws may reach an observed statistic, so that their luck leaves no test above its level."""

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from audit.stats.arrays import Array, Counts

DRAWS_BEYOND = 1400  # simulations expected beyond the critical value: with fewer, paying for their luck costs power
FEWER_BEYOND = 300  # so many cost two points of power of 80 at most; they may take more work
LUCK = 1e-4  # chance that the draws of a size leave a test above its significance


def class_edges(significance: float, coarsest: float) -> list[float]:
    """Return the least significance of each class, from the coarsest on, each half of the one before.

    >>> class_edges(0.03, 0.1)
    [0.1, 0.05, 0.025]
    """
    count = max(0, math.ceil(math.log2(coarsest / significance) - 1e-9))
    return [coarsest / 2**power for power in range(count + 1)]


def draws_for(edge: float, scores: int, *, work: int, most_work: int) -> int:
    """Return how many samples a class of tests draws, given the simulated scores that it may take, and may take in need."""
    return int(max(min(DRAWS_BEYOND / edge, work // scores), min(FEWER_BEYOND / edge, most_work // scores)))


@functools.lru_cache(maxsize=4096)
def critical_rank(count: int, significance: float) -> int:
    """The largest number such that a test which fewer of `count` draws reach has its level at `significance` or below.

    Guarantee: with probability at least `1 - LUCK` over the draws (docs/theory/independent-trials.md, "Least favourable pair").

    >>> critical_rank(20_000, 0.05), critical_rank(100, 0.05)
    (887, 0)
    """
    rank = max(0, int(special.bdtrik(LUCK, count, significance)) + 2)
    while rank and special.bdtr(rank - 1, count, significance) > LUCK:
        rank -= 1
    return rank


@functools.lru_cache(maxsize=4096)
def most_likely_reached(count: int, significance: float) -> int:
    """Return how many of `count` draws reach a value with tail `significance`, but for a chance of `LUCK` at most.

    >>> most_likely_reached(2000, 0.05)
    138
    """
    return math.ceil(float(special.bdtrik(1 - LUCK, count, significance)))


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
