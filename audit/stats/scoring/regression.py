"""Confidence of regressions, from their errors: the same whatever the unit of the target."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_SMALLEST = 1e-18  # of the mean square: errors below a billionth of the usual one count as that


def error_confidences(errors: Array) -> Array:
    """Minus the logarithm of the squared error of each record, less its median: `(..., m)` from `(..., m, d)`.

    Squares are divided by the mean of their column over all models and records first, so that columns of different units count
    alike. With it a change of units changes no value, and a normal law of it is a lognormal law of the squared error.
    `-log p / (1 - p)` of the Cauchy law `p = 1 / (1 + error^2 / median)` is the same number, so attacks on losses
    read it as a logit-scaled confidence. A model that makes the same error everywhere, or none, gives 0 throughout.

    >>> error_confidences(np.array([[[1.0], [2.0], [4.0]]])).round(4).tolist()
    [[1.3863, 0.0, -1.3863]]
    """
    squares = np.asarray(errors, dtype=np.float64) ** 2
    scale = squares.reshape(-1, squares.shape[-1]).mean(axis=0)
    relative = (squares / np.where(scale > 0, scale, 1.0)).sum(axis=-1)
    smallest = _SMALLEST * float(relative.mean())
    if not smallest > 0:
        return np.zeros(relative.shape)
    values = -np.log(np.maximum(relative, smallest))
    return np.asarray(values - np.median(values))


def prediction_confidences(predictions: Array, truths: Array) -> Array:
    """Minus the logarithm of the squared error in units of the truths' mean square, `(..., m)` from `(..., m)`.

    Of each model alone, so that confidences of models that are seen one at a time can be compared.

    >>> prediction_confidences(np.array([3.0, 1.0]), np.array([1.0, 0.0])).round(4).tolist()
    [-2.0794, -0.6931]
    """
    truths = np.asarray(truths, dtype=np.float64)
    scale = float(np.mean(truths**2)) or 1.0
    squares = (np.asarray(predictions, dtype=np.float64) - truths) ** 2
    return np.asarray(-np.log(np.maximum(squares / scale, _SMALLEST)))
