"""A signal's place among a population, on the normal scale and without ties."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from audit.stats.spread import evenly

Array = NDArray[Any]

_KNOTS = 512


def normal_score(values: Array, population: Array) -> Array:
    """Normal quantile of each value's rank in `population`, `(n,)`, strictly increasing if the population is not constant;
    `ValueError` for an empty population.

    `special.ndtr(-normal_score(...))` is the p-value against "from the population": inside it the interpolated empirical one;
    beyond its ends the quantile function continues with the slope of the outer tenth, so nothing ties or is infinite. Rates
    below `1 / len(population)` are so extrapolated, good for ranking and not for a guarantee.

    >>> normal_score(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])).round(2).tolist()
    [-0.97, 0.0, 0.97]
    """
    ascending = np.sort(np.asarray(population, dtype=np.float64))
    n = len(ascending)
    if n == 0:
        raise ValueError("an empty population ranks nothing")
    indices = evenly(n, _KNOTS)
    knots, first = np.unique(ascending[indices], return_index=True)
    ranks = (indices[first] + np.append(indices[first[1:]] - 1, n - 1)) / 2  # middle of ties
    scores = special.ndtri((ranks + 0.5) / n)  # half a rank off both ends, whose quantiles are infinite
    values = np.asarray(values, dtype=np.float64)
    inside = np.interp(values, knots, scores)
    low, high = _outer_slopes(knots, scores)
    return np.asarray(inside + low * np.minimum(values - knots[0], 0.0) + high * np.maximum(values - knots[-1], 0.0))


def normal_score_by_group(values: Array, groups: Array, references: Array, outside: Array, fewest: int) -> Array:
    """`normal_score` of each value among its own population group, or of all if that has under `fewest`; `ValueError` for an
    empty population.

    Memory holds one group's population at a time, or all of it if some group is that small.

    Args:
        values: `(m,)`.
        groups: `(m,)` of the values, and of the columns below.
        references: `(k, m)`, values that the population is taken from.
        outside: `(k, m)` bool, which of these belong to it.
        fewest: values that a group's own population needs.
    """
    out = np.empty(len(values))
    everyone: Array | None = None
    for group in np.unique(groups):
        columns = np.flatnonzero(groups == group)
        population = references[:, columns][outside[:, columns]]
        if len(population) < fewest:
            everyone = references[outside] if everyone is None else everyone
            population = everyone
        out[columns] = normal_score(values[columns], population)
    return out


def _outer_slopes(knots: Array, scores: Array) -> tuple[float, float]:
    if len(knots) == 1:
        return 1.0, 1.0
    tenth = max(1, len(knots) // 10)
    low = (scores[tenth] - scores[0]) / (knots[tenth] - knots[0])
    high = (scores[-1] - scores[-1 - tenth]) / (knots[-1] - knots[-1 - tenth])
    return float(low), float(high)
