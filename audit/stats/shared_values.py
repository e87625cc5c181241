"""Whether two groups of records share more values than a random split of all of them would make them share."""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

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
