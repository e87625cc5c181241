"""How many simulated draws may reach an observed statistic, so that their luck leaves no test above its level."""

import functools
import math

from scipy import special

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
