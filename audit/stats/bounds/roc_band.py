"""A band on a whole ROC: all pairs of rates that the counts at some threshold leave plausible.

Rates (u, v) are plausible if `n0 KL(i / n0, u) + n1 KL(j / n1, v)` is at most a critical value for i of n0 nonmembers and j of
n1 members above some threshold; simulated for null scores and randomised response (docs/theory/roc.md, "Bands on a ROC").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from audit.stats.bounds.ranks import Memberships
from audit.stats.bounds.validation import Array, Counts, fraction

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
