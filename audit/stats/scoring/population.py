"""A signal's place among a population, on the normal scale and without ties."""

import numpy as np
from scipy import special

from audit.stats.arrays import AnyArray
from audit.stats.spread import evenly

_KNOTS = 512


def normal_score(values: AnyArray, population: AnyArray) -> AnyArray:
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


def normal_score_by_group(values: AnyArray, groups: AnyArray, references: AnyArray, outside: AnyArray, fewest: int) -> AnyArray:
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
    everyone: AnyArray | None = None
    for group in np.unique(groups):
        columns = np.flatnonzero(groups == group)
        population = references[:, columns][outside[:, columns]]
        if len(population) < fewest:
            everyone = references[outside] if everyone is None else everyone
            population = everyone
        out[columns] = normal_score(values[columns], population)
    return out


def _outer_slopes(knots: AnyArray, scores: AnyArray) -> tuple[float, float]:
    if len(knots) == 1:
        return 1.0, 1.0
    tenth = max(1, len(knots) // 10)
    low = (scores[tenth] - scores[0]) / (knots[tenth] - knots[0])
    high = (scores[-1] - scores[-1 - tenth]) / (knots[-1] - knots[-1 - tenth])
    return float(low), float(high)


_WIDTHS = (1.0, 0.3, 0.1, 0.05)  # of the kernel, in standard deviations of the targets; the last one is the estimator's
_ITERATIONS = 50


def fit(features: AnyArray, targets: AnyArray, level: float) -> AnyArray:
    """Weights `(f,)` such that `features @ weights` estimates the `level` quantile of `targets` given the features;
    `ValueError` for a level outside (0, 1), or no rows.

    Minimises the pinball loss convolved with a logistic kernel of a twentieth of the targets' standard
    deviation. The features `(n, f)` have to contain a constant column if an intercept is wanted.

    References: Koenker and Bassett 1978; smoothing by convolution: Fernandes, Guerre and Horta 2021.

    >>> fit(np.ones((101, 1)), np.arange(101.0), 0.8).round().tolist()
    [80.0]
    """
    if not 0 < level < 1:
        raise ValueError(f"quantile level is {level}; expected a number strictly between 0 and 1")
    if len(features) == 0:
        raise ValueError("quantile regression on no rows")
    x, y = np.asarray(features, dtype=np.float64), np.asarray(targets, dtype=np.float64)
    weights = np.linalg.lstsq(x, y, rcond=None)[0]
    # from wide to narrow, each the start of the next
    for width in _WIDTHS:
        weights = _minimise(x, y, level, max(float(y.std()), 1e-12) * width, weights)
    return np.asarray(weights)


def _minimise(x: AnyArray, y: AnyArray, level: float, width: float, weights: AnyArray) -> AnyArray:
    # where all rows lie far from the quantile the curvature vanishes, and the equations still have to be solvable
    steady = 1e-9 * np.eye(x.shape[1]) * float(np.mean(x**2)) / width
    objective = _objective(x, y, level, width, weights)
    for _ in range(_ITERATIONS):
        below = special.expit((x @ weights - y) / width)
        slope = x.T @ (below - level) / len(x)
        curvature = (x * (below * (1 - below))[:, None]).T @ x / (len(x) * width) + steady
        step = np.linalg.solve(curvature, slope)
        length, value = 1.0, np.inf
        while value > objective and length > 1e-8:
            value = _objective(x, y, level, width, weights - length * step)
            length /= 2
        if value > objective:
            return weights
        weights = weights - 2 * length * step  # `length` was halved once more after the step that was good
        improvement, objective = objective - value, value
        if improvement < 1e-14 * (abs(objective) + width):
            return weights
    return weights


def _objective(x: AnyArray, y: AnyArray, level: float, width: float, weights: AnyArray) -> float:
    residual = y - x @ weights
    return float(np.mean(level * residual + width * np.logaddexp(0.0, -residual / width)))
