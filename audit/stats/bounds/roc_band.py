"""A band on a whole ROC: all pairs of rates that the counts at some threshold leave plausible.

Rates (u, v) are plausible if `n0 KL(i / n0, u) + n1 KL(j / n1, v)` is at most a critical value for i of n0 nonmembers and j of
n1 members above some threshold; simulated for null scores and randomised response (docs/theory/roc.md, "Bands on a ROC").
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.bounds.bernoulli_sums import convolve
from audit.stats.bounds.ranks import Memberships
from audit.stats.bounds.validation import fraction

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


SIZES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000)  # of the larger side
LEVELS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
# `(sizes, levels)`: what the departure of the true curve exceeds with at most the chance of the level, for those two laws:
# the table that `python benchmarks/roc_bands.py --critical --draws 4000` prints
CRITICAL = np.array(
    [
        (1.37, 1.37, 1.37, 1.37, 3.10, 3.10),
        (1.00, 1.00, 1.72, 2.22, 2.22, 2.47),
        (0.84, 1.48, 1.79, 2.20, 2.86, 3.61),
        (1.27, 1.83, 2.27, 2.69, 3.52, 4.05),
        (1.58, 2.39, 3.01, 3.61, 4.33, 4.65),
        (1.83, 2.68, 3.33, 3.97, 4.83, 5.44),
        (2.10, 3.08, 3.72, 4.48, 5.30, 5.91),
        (2.30, 3.37, 4.06, 4.85, 5.61, 6.12),
        (2.47, 3.62, 4.36, 5.14, 5.92, 6.52),
        (2.82, 3.95, 4.76, 5.57, 6.44, 7.20),
    ]
)

THRESHOLDS, PER_ERROR = 4000, 10.0  # that are kept at most: so many, or so many times the root of the number of scores
NEAR = 4.0  # standard errors of a threshold's rates, beyond which it does not count in `departure`
HALVINGS = 40  # of the unit interval, for a limit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThresholdPath:
    """The counts of nonmembers and members above a falling threshold, `(m,)` each, from none to all of them."""

    false: Counts
    true: Counts

    @classmethod
    def of(cls, ranking: Memberships) -> ThresholdPath:
        """Return the path of memberships from the highest score down, many thresholds thinned by their standard error.

        >>> ThresholdPath.of(np.array([True, False])).true.tolist()
        [0, 1, 1]
        """
        true = np.concatenate([[0], np.cumsum(ranking, dtype=np.int64)])
        totals = kept_thresholds(len(ranking))
        return cls(false=totals - true[totals], true=true[totals])

    @property
    def nonmembers(self) -> int:
        return int(self.false[-1])

    @property
    def members(self) -> int:
        return int(self.true[-1])

    def behind(self) -> ThresholdPath:
        """Return the path seen from its end, on which members and nonmembers below a threshold are counted."""
        return ThresholdPath(false=self.nonmembers - self.false[::-1], true=self.members - self.true[::-1])


def kept_thresholds(scores: int) -> Counts:
    """Numbers of scores above the thresholds that a path keeps; all from 0 to `scores` if they are few."""
    limit = max(THRESHOLDS, math.ceil(PER_ERROR * math.sqrt(scores)))
    if scores < limit:
        return np.arange(scores + 1)
    return np.unique(np.rint(scores * np.sin(np.linspace(0, math.pi / 2, limit)) ** 2).astype(np.int64))


def critical_value(members: int, nonmembers: int, confidence: float) -> float:
    """The critical value of the band, interpolated between sizes and levels; beyond the least level it grows by one per factor
    e. `ValueError` for a confidence outside (0, 1).
    """
    level = 1 - fraction(confidence, "confidence")
    size, sizes = math.log(max(members, nonmembers)), np.log(SIZES)
    row = np.array([np.interp(size, sizes, column) for column in CRITICAL.T])
    row += np.maximum(size - sizes[-1], 0) * (CRITICAL[-1] - CRITICAL[-2]) / (sizes[-1] - sizes[-2])
    surprise = -math.log(level)
    inside = float(np.interp(surprise, -np.log(LEVELS), row))
    return inside + max(0.0, surprise + math.log(LEVELS[-1]))


def upper_limits(path: ThresholdPath, rates: Array, critical: float) -> Array:
    """`(k,)` the largest true positive rate that is plausible at each false positive rate."""
    reach = math.sqrt(critical * path.nonmembers / 2)  # further counts are implausible, by Pinsker's inequality
    first = np.searchsorted(path.false, path.nonmembers * rates - reach, side="left")
    last = np.searchsorted(path.false, path.nonmembers * rates + reach, side="right") - 1
    index = np.minimum(first[:, None] + np.arange(int((last - first).max()) + 1), last[:, None])
    surprise = divergence(path.false[index], path.nonmembers, rates[:, None])
    row, column = np.nonzero(surprise <= critical)
    true, budget = path.true[index[row, column]], critical - surprise[row, column]
    inner, outer = np.zeros(len(rates)), np.ones(len(rates))
    for _ in range(HALVINGS):
        middle = (inner + outer) / 2
        # more members than `middle` leads to expect do not speak against it: the limit is further up
        middles = middle[row]
        plausible = (true >= path.members * middles) | (divergence(true, path.members, middles) <= budget)
        hit = np.zeros(len(rates), bool)
        hit[row[plausible]] = True
        inner, outer = np.where(hit, middle, inner), np.where(hit, outer, middle)
        staying = plausible | ~hit[row]  # a threshold below the best of its rate decides nothing further up
        row, true, budget = row[staying], true[staying], budget[staying]
    return outer


def lower_limits(path: ThresholdPath, rates: Array, critical: float) -> Array:
    """`(k,)` the least true positive rate that is plausible at each false positive rate."""
    return 1 - upper_limits(path.behind(), 1 - rates, critical)


def departure(path: ThresholdPath, fpr: Array, tpr: Array) -> float:
    """The least critical value with a band that holds all of these points of a ROC, or a little more: far thresholds are left
    out.
    """
    scores, totals = path.nonmembers + path.members, path.false + path.true
    spacing = 1.0 if len(totals) > scores else scores * math.pi / (4 * len(totals))
    half = math.ceil(NEAR * math.sqrt(scores) / (2 * spacing)) + 6
    at = np.searchsorted(totals, path.nonmembers * fpr + path.members * tpr)
    index = np.clip(at[:, None] + np.arange(-half, half + 1), 0, len(totals) - 1)
    surprise = divergence(path.false[index], path.nonmembers, fpr[:, None])
    surprise += divergence(path.true[index], path.members, tpr[:, None])
    return float(surprise.min(axis=1).max())


def divergence(counts: Counts, size: int, rates: Array) -> Array:
    """`size KL(counts / size, rates)`: the relative entropy of two coins, infinite if a rate excludes its count."""
    shares = counts / size
    return np.asarray(size * (special.rel_entr(shares, rates) + special.rel_entr(1 - shares, 1 - rates)))
