"""Success of an attack on one group of records beyond its success on another that says nothing of the first."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from audit.stats.arrays import Array
from audit.stats.bounds.binomial import rate_lower, rate_upper

MOST_MATCHES = 60  # a predicate with more matches among both groups singles out in fewer than one split in 1e16


def excess_limits(successes: tuple[int, int], attacks: tuple[int, int], significance: float) -> tuple[float, float, float]:
    """`(t - c) / (1 - c)` of two success rates, and its limits from those of both rates.

    Guarantee: the limits leave out the truth with probability at most `significance`, for two independent binomial counts.
    References: Giomi et al. 2023, "A unified framework for quantifying privacy risk in synthetic data" (the figure).

    >>> excess, low, high = excess_limits((60, 20), (100, 100), 0.05)
    >>> round(excess, 3), round(low, 3), round(high, 3)
    (0.5, 0.256, 0.67)
    """
    (hits, control_hits), (count, control_count) = successes, attacks
    quarter = significance / 4
    lows = [float(rate_lower(*pair, quarter)) for pair in ((hits, count), (control_hits, control_count))]
    highs = [float(rate_upper(*pair, quarter)) for pair in ((hits, count), (control_hits, control_count))]
    return (_beyond(hits / count, control_hits / control_count), _beyond(lows[0], highs[1]), _beyond(highs[0], lows[1]))


def _beyond(rate: float, control: float) -> float:
    """The rate beyond that of the control as a share of what that leaves; 0 if it leaves nothing, at least -1.

    >>> _beyond(0.5, 1.0), _beyond(0.6, 0.2)
    (0.0, 0.5)
    """
    return 0.0 if control >= 1 else max(-1.0, round((rate - control) / (1 - control), 12))


def fisher_tail(successes: tuple[int, int], attacks: tuple[int, int]) -> float:
    """The chance of so many successes in the first group, or more, if both are a random split of all attacked records.

    References: Fisher 1935, "The logic of inductive inference".

    >>> round(fisher_tail((3, 0), (3, 3)), 6)
    0.05
    """
    return float(stats.hypergeom.sf(successes[0] - 1, sum(attacks), sum(successes), attacks[0]))


def split_tail(matches: Sequence[Array], size: int, repetitions: int, random: np.random.Generator) -> float:
    """The chance that a random split of `2 size` records lets predicates single out so much more often in its first half.

    A predicate, given as the records that match it (those below `size` are the first half), singles out in a half if exactly
    one record of it matches. Records are split anew and predicates kept, so these may depend on each other. The real split
    counts as one draw: p-values are valid.

    References: Phipson and Smyth 2010, "Permutation p-values should never be zero".

    >>> split_tail([np.array([row]) for row in range(5)], 5, 99, np.random.default_rng(0)) < 0.05
    True
    """
    useful = [rows for rows in matches if 0 < len(rows) <= MOST_MATCHES]
    if not useful:
        return 1.0
    rows, starts = np.concatenate(useful), np.cumsum([0, *(len(part) for part in useful[:-1])])
    totals = np.array([len(part) for part in useful])

    def lead(first: NDArray[np.bool_]) -> int:
        counts = np.add.reduceat(first[rows].astype(np.int64), starts)
        return int((counts == 1).sum() - (totals - counts == 1).sum())

    first_half = np.arange(2 * size) < size
    observed_lead = lead(first_half)
    hits = sum(lead(random.permutation(first_half)) >= observed_lead for _ in range(repetitions))
    return (1 + hits) / (1 + repetitions)


def side_p_values(inside: Array, sizes: Array, side: int, total: int) -> Array:
    """Return, of each group of `sizes` records, the two-sided p-value of `inside` of them among `side` of `total` at random."""
    law = stats.hypergeom(total, sizes, side)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(law.cdf(inside), law.sf(inside - 1))))


_TILTS = np.concatenate([np.linspace(0.0, 3.0, 61), np.geomspace(3.2, 40.0, 40)])


def shared_values_tail(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return a bound on the chance that a random split of all records puts as many values, or more, on both sides.

    Guarantee: at least the chance over splits into groups of these sizes, whatever records occur how often. Were each record
        alone to toss a coin for its side, values would be shared independently of each other, so that Chernoff's bound holds;
        splits of these sizes are a part of those tosses as large as a binomial probability.

    Args:
        first, second: `(n,)` and `(m,)`, a number for the value of each record.

    >>> shared_values_tail(np.arange(100), np.arange(40)) < 1e-6 < shared_values_tail(np.arange(100) // 2, np.arange(40) // 2)
    True
    """
    size = 1 + int(max(first.max(), second.max()))
    counts = [np.bincount(group, minlength=size) for group in (first, second)]
    shared = int(((counts[0] > 0) & (counts[1] > 0)).sum())
    share = len(first) / (len(first) + len(second))
    occurrences, values = np.unique(counts[0] + counts[1], return_counts=True)
    chances = np.clip(1 - share**occurrences - (1 - share) ** occurrences, 0.0, 1.0)
    moments = np.log1p(chances * np.expm1(_TILTS[:, None])) @ values
    sizes = stats.binom.logpmf(len(first), len(first) + len(second), share)
    return float(np.exp(min(0.0, float(np.min(moments - _TILTS * shared)) - float(sizes))))
