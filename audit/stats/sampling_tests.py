"""Exact tests that index lists of batches are Poisson samples: every record in every batch independently with one rate.

Each statistic is binomial under Poisson sampling, so its tail is exact for every number of records and steps; normal
approximations of the same statistics accuse correct logs (65 of 200 if these accuse none).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats
from scipy.special import betainc

from audit.stats.bounds.binomial import quantile, two_sided

Members = NDArray[np.bool_]
GRIDS = range(2, 17)
MOST_ALIKE, STANDOUTS = 4000, 24  # rows whose pairs are compared, and pairs whose tail is computed
SMALL = 0.01  # p-values of Pearson's law that are computed exactly


def lag_rank_correlation(values: NDArray[np.float64]) -> float:
    """Spearman's correlation of each value with the next; 0 if all are equal.

    >>> lag_rank_correlation(np.array([1.0, 2.0, 3.0, 4.0]))
    1.0
    """
    first, second = stats.rankdata(values[:-1]), stats.rankdata(values[1:])
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.mean((first - first.mean()) * (second - second.mean())) / (first.std() * second.std()))


def membership(batches: Sequence[Sequence[int]], records: int) -> Members:
    """Table of which record is in which batch, `(steps, records)`."""
    table = np.zeros((len(batches), records), dtype=bool)
    for step, batch in enumerate(batches):
        table[step, np.asarray(batch, dtype=np.int64)] = True
    return table


def poisson_tails(members: Members, rate: float) -> Mapping[str, float]:
    """P-values, by property, that `(steps, records)` memberships are independent with that rate.

    Keys: "rate" (all memberships), "batch sizes" (steps with a size in the middle half), "largest batch" and "smallest
    batch" (neither too small, as truncation makes them, nor too large), "batch sizes on a grid" (remainders of sizes by 2 to
    16), "inclusion counts" (records with a count in the middle half), "spread of batch sizes" and "spread of inclusions",
    "record drawn most" and "record drawn least", "next step" and "next record" (joint memberships in disjoint pairs of steps,
    and of neighbouring records), "batches alike" and "records alike" (the most joint memberships of any two, given their
    numbers, by the union bound).
    """
    steps, records = members.shape
    sizes, counts = members.sum(1), members.sum(0)
    # disjoint pairs: overlapping ones depend on each other, and their number would not be binomial
    pairs = members[: steps // 2 * 2].reshape(steps // 2, 2, records).all(1)
    neighbours = members[:, : records // 2 * 2].reshape(steps, records // 2, 2).all(2)
    return {
        "rate": two_sided(int(members.sum()), members.size, rate),
        "batch sizes": _middle(sizes, records, rate),
        "largest batch": _largest(int(sizes.max(initial=0)), steps, records, rate),
        "smallest batch": _largest(records - int(sizes.min(initial=records)), steps, records, 1 - rate),
        "batch sizes on a grid": _grid(sizes, records, rate),
        "inclusion counts": _middle(counts, steps, rate),
        "spread of batch sizes": _spread(sizes, records, rate),
        "spread of inclusions": _spread(counts, steps, rate),
        "record drawn most": _largest(int(counts.max(initial=0)), records, steps, rate),
        "record drawn least": _largest(steps - int(counts.min(initial=steps)), records, steps, 1 - rate),
        "next step": two_sided(int(pairs.sum()), pairs.size, rate**2),
        "next record": two_sided(int(neighbours.sum()), neighbours.size, rate**2),
        "batches alike": _most_alike(members),
        "records alike": _most_alike(members.T),
    }


def _middle(values: NDArray[np.int64], trials: int, rate: float) -> float:
    """Tail of the number of binomial values between the quartiles of their law."""
    low, high = quantile(0.25, trials, rate), quantile(0.75, trials, rate)
    below = 0.0 if low == 0 else float(special.bdtr(low - 1, trials, rate))
    inside = float(special.bdtr(high, trials, rate)) - below
    return two_sided(int(((values >= low) & (values <= high)).sum()), len(values), min(1.0, inside))


def _spread(values: NDArray[np.int64], trials: int, rate: float) -> float:
    """Bound (Chernoff) on both tails of the sum of squared deviations of binomial values from their mean."""
    squares = (np.arange(trials + 1) - trials * rate) ** 2 / (trials * rate * (1 - rate) or 1.0)  # 0 if all are drawn
    log_pmf = stats.binom.logpmf(np.arange(trials + 1), trials, rate)
    total = float(squares[values].sum())
    tilts = np.concatenate([sign * np.geomspace(1e-4, 1, 60) for sign in (-1, 1)])
    bounds = (len(values) * special.logsumexp(log_pmf + tilt * squares) - tilt * total for tilt in tilts)
    return min(1.0, 2 * math.exp(min(bounds)))


def _grid(sizes: NDArray[np.int64], records: int, rate: float) -> float:
    """P-value that so many binomial sizes have one remainder by a small number, over all remainders together."""
    pmf = np.diff(special.bdtr(np.arange(records + 1), records, rate), prepend=0.0)
    tails = [1.0]
    for step in GRIDS:
        chances = np.bincount(np.arange(records + 1) % step, weights=pmf, minlength=step)
        hits = np.bincount(sizes % step, minlength=step)
        inside = (hits > 0) & (chances < 1)
        tails += special.bdtrc(hits[inside] - 1, len(sizes), chances[inside]).tolist()
    return min(1.0, sum(GRIDS) * min(tails))


def _most_alike(rows: Members) -> float:
    """P-value of the most joint members of any two rows, hypergeometric given their sizes; 1 for more rows than are compared.

    The tail is computed for the most extreme pairs, which can only make their smallest larger.
    """
    count, size = rows.shape
    if not 2 <= count <= MOST_ALIKE:
        return 1.0
    table = rows.astype(np.float32)
    sums = rows.sum(1)
    means = np.outer(sums, sums) / size
    excess = (table @ table.T - means) / np.sqrt(np.maximum(means, 1e-9))
    excess[np.tril_indices(count)] = -math.inf
    tails = [1.0]
    for at in (
        np.argpartition(excess, -STANDOUTS, axis=None)[-STANDOUTS:] if count * count > STANDOUTS else range(count * count)
    ):
        first, second = divmod(int(at), count)
        if first < second:
            joint = int((rows[first] & rows[second]).sum())
            tails.append(float(stats.hypergeom.sf(joint - 1, size, sums[first], sums[second])))
    return float(min(1.0, count * (count - 1) / 2 * min(tails)))


def _largest(largest: int, steps: int, records: int, rate: float) -> float:
    """Two-sided tail of the largest of independent binomial sizes."""
    upper_tail = float(special.bdtr(largest, records, rate)) ** steps
    below = 0.0 if largest == 0 else float(special.bdtr(largest - 1, records, rate)) ** steps
    return min(1.0, 2 * min(upper_tail, 1 - below))


def uniformity(counts: Sequence[int]) -> float:
    """Return the p-value of Pearson's statistic that categories with these counts are equally likely.

    It is exact below `SMALL`, where that of Pearson's own law is far too small if few of each category are expected, and
    Pearson's above. The work grows with the third power of the number of observations; some hundreds take less than a second.

    >>> uniformity([50, 50]), uniformity([100, 0]) < 1e-12, round(uniformity([6, 0, 0]), 6)
    (1.0, True, 0.004115)
    """
    observed = np.asarray(counts, dtype=np.int64)
    expectation = observed.mean()
    asymptotic = float(special.chdtrc(len(observed) - 1, ((observed - expectation) ** 2 / expectation).sum()))
    if asymptotic >= SMALL:
        return asymptotic
    return _equal_pairs_tail(int((observed * (observed - 1) // 2).sum()), int(observed.sum()), len(observed))


def _equal_pairs_tail(pairs: int, total: int, categories: int) -> float:
    """The chance of so many pairs of equal observations, or more, among `total` in equally likely categories.

    Pearson's statistic grows with that number of pairs. Counts are independent Poisson variables given their sum, so the joint
    law of sum and pairs is built up category by category.
    """
    table = np.zeros((total + 1, pairs))  # of (observations, pairs) so far; pairs that suffice are left out
    table[0, :1] = 1.0
    counts = [count for count in range(total + 1) if count * (count - 1) // 2 < pairs]
    weights = special.pdtr(counts, total / categories)
    weights = np.diff(weights, prepend=0.0)
    for _ in range(categories):
        after = np.zeros_like(table)
        for count, weight in zip(counts, weights.tolist(), strict=True):
            shift = count * (count - 1) // 2
            after[count:, shift:] += weight * table[: total + 1 - count, : pairs - shift]
        table = after
    log_weight = total * math.log(total) - total - math.lgamma(total + 1)
    return max(0.0, 1 - float(table[total].sum()) / math.exp(log_weight))


_ALLOWANCE = 1e-9  # relative, for the rounding of the incomplete beta function


def overflow_chance(population: int, sample_rate: float, batch_limit: int) -> float:
    """Return, from above, the chance that more than `batch_limit` of `population` records are drawn.

    >>> round(overflow_chance(3, 0.5, 2), 6)
    0.125
    >>> overflow_chance(3, 0.5, 3)
    0.0
    """
    if batch_limit >= population or sample_rate == 0:
        return 0.0
    return min(1.0, float(betainc(batch_limit + 1, population - batch_limit, sample_rate)) * (1 + _ALLOWANCE))
