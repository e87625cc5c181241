"""Linear quantile regression on a smoothed loss by Newton's method: deterministic, no tuning."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[Any]

_WIDTHS = (1.0, 0.3, 0.1, 0.05)  # of the kernel, in standard deviations of the targets; the last one is the estimator's
_ITERATIONS = 50


def fit(features: Array, targets: Array, level: float) -> Array:
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


def _minimise(x: Array, y: Array, level: float, width: float, weights: Array) -> Array:
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


def _objective(x: Array, y: Array, level: float, width: float, weights: Array) -> float:
    residual = y - x @ weights
    return float(np.mean(level * residual + width * np.logaddexp(0.0, -residual / width)))
