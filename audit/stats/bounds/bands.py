"""Bands on a distribution function that hold at every point at once."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from audit.stats.bounds.convolution import convolve
from audit.stats.bounds.validation import Array, Counts, fraction

DENSE = 60  # ranks from either end that are all constrained
SPARSE = 120  # further ranks on each half, in geometric progression
LEVEL_PRECISION = 1.005  # ratio at which the search for the local level stops


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SurvivalBand:
    """Limits on `P[X >= t]` when `k` of `n` scores are at least t: `lower[k]`, `upper[k]`, `(n + 1,)` each."""

    lower: Array
    upper: Array
    method: str


@functools.lru_cache(maxsize=64)
def survival_band(count: int, confidence: float) -> SurvivalBand:
    """The band of equal local levels (two-sided Berk-Jones) for `count` scores; `ValueError` for a confidence outside (0, 1).

    Guarantee: contains the survival function of independent, identically distributed scores everywhere at once with
        probability at least `confidence`. The chance that the Beta distributed rates of `constrained_ranks` are all within the
        same two quantiles is computed exactly (`chance_inside`); between ranks the band follows from monotonicity.

    References: Berk and Jones 1979; Aldor-Noiman et al. 2013 (equal local levels); Moscovich and Nadler 2017, arXiv 1503.04363.
    """
    ranks = constrained_ranks(count)
    low, high = _limits(ranks, count, local_level(count, confidence))
    at = np.arange(count + 1)
    # with k scores at or above t the k-th extreme is at or above t, and the (k + 1)-th is below
    below, above = np.searchsorted(ranks, at, side="right") - 1, np.searchsorted(ranks, at + 1, side="left")
    return SurvivalBand(
        lower=np.where(below >= 0, low[np.maximum(below, 0)], 0.0),
        upper=np.where(above < len(ranks), high[np.minimum(above, len(ranks) - 1)], 1.0),
        method="equal local levels",
    )


def constrained_ranks(count: int) -> Counts:
    """The order statistics that the band constrains: all of them for a few hundred scores, else a symmetric selection.

    >>> constrained_ranks(4).tolist()
    [1, 2, 3, 4]
    """
    half = (count + 1) // 2
    dense = np.arange(1, min(DENSE, half) + 1)
    sparse = np.rint(np.geomspace(dense[-1], half, SPARSE)).astype(np.int64)
    lower = np.unique(np.concatenate([dense, sparse]))
    return np.unique(np.concatenate([lower, count + 1 - lower]))


def _limits(ranks: Counts, count: int, level: float) -> tuple[Array, Array]:
    """Lower and upper Beta quantiles at `level` of each rank's rate."""
    first, second = ranks.astype(np.float64), (count - ranks + 1).astype(np.float64)
    return special.betaincinv(first, second, level), special.betainccinv(first, second, level)


@functools.lru_cache(maxsize=256)
def local_level(count: int, confidence: float) -> float:
    """The error each side of each rank may make so that all hold with `confidence`, from below.

    >>> round(local_level(1, 0.95), 6)
    0.025
    """
    total = 1 - fraction(confidence, "confidence")
    ranks = constrained_ranks(count)
    # Bonferroni's level holds; that of one rank alone is right if there is one, so the end that fails is just above it
    low, high = total / (2 * len(ranks)), total / 2 * 1.0000001
    while high / low > LEVEL_PRECISION:
        middle = math.sqrt(low * high)
        inside = chance_inside(ranks, *_limits(ranks, count, middle), count)
        low, high = (middle, high) if inside >= confidence else (low, middle)
    return low


def chance_inside(ranks: Counts, low: Array, high: Array, count: int) -> float:
    """The probability that `low[j] <= U_(ranks[j]) <= high[j]` for all j, U being `count` sorted uniform variables.

    Their number below a time is a Poisson process conditioned on its total: each move between constraints is one convolution.

    >>> round(chance_inside(np.array([1]), np.array([0.25]), np.array([0.5]), 1), 12)
    0.25
    """
    # at time low[j] at most ranks[j] - 1 variables may be below, at time high[j] at least ranks[j] must be
    times = np.concatenate([low, high, [1.0]])
    is_low = np.arange(len(times)) < len(low)
    order = np.lexsort((~is_low, times))
    times, is_low = times[order], is_low[order]
    bound = np.concatenate([ranks - 1, ranks, [count]])[order]
    base, mass, previous = 0, np.ones(1), 0.0  # mass[i]: chance that base + i are below `previous`, all constraints kept
    for time, lowers, limit in zip(times.tolist(), is_low.tolist(), bound.tolist(), strict=True):
        if time > previous:
            start, moves = _poisson(count * (time - previous))
            mass, base, previous = convolve(mass, moves), base + start, time
            mass = mass[: max(count - base + 1, 0)]
        if lowers:
            mass = mass[: max(limit - base + 1, 0)]
        elif limit > base:
            mass, base = mass[limit - base :], limit
        if len(mass) == 0:
            return 0.0
    chance = float(mass[0]) if base == count else 0.0
    # over the chance that a Poisson variable of mean `count` takes just that value: the conditioning on the total
    return chance / math.exp(count * math.log(count) - count - math.lgamma(count + 1))


def _poisson(mean: float) -> tuple[int, Array]:
    """First count and probabilities of a Poisson variable, all but about 1e-18 of its mass."""
    reach = 9 * math.sqrt(mean) + 12
    first = max(0, math.floor(mean - reach))
    counts = np.arange(first, math.ceil(mean + reach) + 1, dtype=np.float64)
    return first, np.exp(special.xlogy(counts, mean) - mean - special.gammaln(counts + 1))
