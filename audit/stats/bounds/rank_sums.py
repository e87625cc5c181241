"""The exact law of the pairs that members win if nothing leaks: Mann and Whitney's."""

import functools
import math

import numpy as np

from audit.stats.arrays import Array

ALL_TERMS = 50_000  # factors of the generating function below which no term of its Fourier sum is left out
FEWEST = 30  # scores of the smaller side from which terms may be left out
REACH = 9.0  # standard deviations, in the frequency of the first term that is: there a normal law has 3e-18
ERROR = 1e-11  # of a chance: roundings and the terms left out, together, with room


def tail(members: int, nonmembers: int, wins: int) -> float:
    """Return the chance that members win `wins` of the `members * nonmembers` pairs or more, all orders being equally likely.

    Rounded up by `ERROR`. The law is a Gaussian binomial coefficient (Mann and Whitney 1947), whose Fourier sum has few terms
    that differ from 0 for many scores (docs/theory/independent-trials.md, "Area under the ROC").

    >>> round(tail(3, 3, 9), 9), round(tail(3, 3, 8), 9), tail(3, 3, 0)
    (0.05, 0.1, 1.0)
    """
    if wins <= 0:
        return 1.0
    pairs = members * nonmembers
    period, values = _terms(min(members, nonmembers), max(members, nonmembers))
    losses = pairs - wins  # the law is symmetric: as likely as so many wins or fewer
    place = np.arange(1, len(values) + 1)
    step = np.pi / period
    # the sum of a term over 0 ... losses, by the Dirichlet kernel, about the centre pairs / 2
    kernel = np.sin(step * (place * (losses + 1) % (2 * period))) / np.sin(step * place)
    phase = np.cos(step * (place * (pairs - losses) % (2 * period)))
    chance = ((losses + 1) + 2 * float(values @ (kernel * phase))) / period
    return min(1.0, max(0.0, chance) + ERROR)


@functools.lru_cache(maxsize=8)
def _terms(smaller: int, larger: int) -> tuple[int, Array]:
    """A period that exceeds the number of pairs, and the real terms of the sum from the first on; the law is centred."""
    period = _prime_from(smaller * larger + 1)
    count = period // 2
    if smaller >= FEWEST and count * smaller > ALL_TERMS:
        deviation = math.sqrt(smaller * larger * (smaller + larger + 1) / 12)
        count = min(count, math.ceil(REACH * period / (2 * math.pi * deviation)))
    # the generating function of rank sums at roots of unity, a product of ratios of sines; angles are reduced in whole numbers,
    # since `place * factor` would lose digits as a float; `factor / (larger + factor)` divides by the number of orders
    place, values = np.arange(1, count + 1), np.ones(count)
    for factor in range(1, smaller + 1):
        values *= np.sin(np.pi / period * (place * (larger + factor) % (2 * period))) * factor
        values /= np.sin(np.pi / period * (place * factor % (2 * period))) * (larger + factor)
    return period, values


def _prime_from(number: int) -> int:
    """Return the least odd prime from a number on: no denominator of a term is 0 then."""
    candidate = number | 1
    while any(candidate % divisor == 0 for divisor in range(3, math.isqrt(candidate) + 1, 2)):
        candidate += 2
    return candidate


@functools.lru_cache(maxsize=1024)
def critical_wins(members: int, nonmembers: int, significance: float) -> int:
    """Return the least number of wins with a tail of `significance` or below; one more than all pairs if there is none."""
    low, high = 0, members * nonmembers + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(members, nonmembers, middle) <= significance else (middle, high)
    return high
