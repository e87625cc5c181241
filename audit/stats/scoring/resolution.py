"""Probabilities of exactly 0 and 1: how finely a model's outputs are resolved, and confidences smooth by that much."""

import numpy as np

from audit.stats.arrays import AnyArray

_CERTAIN = 15.0  # a confidence (log odds) beyond the rounding of single precision near 1
_TOLERANCE = 1e-6  # distance of confidences that differ by rounding alone
_RARE = 0.01  # share of the resolved probabilities that may be closer to 0 or 1 than the resolution
_COARSEST = 0.1  # of outputs that are 0 or 1 alone


def resolution(confidences: AnyArray) -> float | None:
    """The least probability that models with confidences `log(p / (1 - p))` resolve; None if none is exactly 0 or 1.

    Of outputs that are shares (of trees, of neighbours) or rounded, the step between them. An end of the scale is taken for
    exactly 0 or 1 if several confidences beyond 15 are equal there: those of a function without steps differ.

    >>> round(float(resolution(np.log(np.array([1e-30, 1e-30, 0.01, 0.02, 0.5]) / 0.999999)) or 0), 3)
    0.01
    """
    values = np.asarray(confidences, dtype=np.float64)
    # looked at first: most models are nowhere so sure, and an array of as many truth values costs memory
    if values.size < 2 or max(float(values.max()), -float(values.min())) <= _CERTAIN:
        return None
    ends = at_ends(values)
    if not ends.any():
        return None
    inner = np.abs(values[~ends])
    if not len(inner):
        return _COARSEST
    farthest = float(np.quantile(inner, 1.0 - _RARE, method="higher"))
    return float(min(_COARSEST, np.exp(-np.logaddexp(0.0, farthest))))


def at_ends(values: AnyArray) -> AnyArray:
    """True for confidences at an end of the scale that several share; the same shape."""
    high, low = float(values.max()), float(values.min())
    ends = np.zeros(values.shape, dtype=bool)
    if high > _CERTAIN and np.count_nonzero(values >= high - _TOLERANCE) > 1:
        ends |= values >= high - _TOLERANCE
    if -low > _CERTAIN and np.count_nonzero(values <= low + _TOLERANCE) > 1:
        ends |= values <= low + _TOLERANCE
    return ends


def smooth(confidences: AnyArray, step: float) -> AnyArray:
    """Confidences of `(p + step) / (1 + 2 step)`, in the order of `p`, finite at 0 and 1.

    >>> smooth(np.array([0.0, 90.0]), 0.01).round(4).tolist()
    [0.0, 4.6151]
    """
    values = np.asarray(confidences, dtype=np.float64)
    log_p, log_q = -np.logaddexp(0.0, -values), -np.logaddexp(0.0, values)
    return np.asarray(np.logaddexp(log_p, np.log(step)) - np.logaddexp(log_q, np.log(step)))


_SMALLEST = 1e-18  # of the mean square: errors below a billionth of the usual one count as that


def error_confidences(errors: AnyArray) -> AnyArray:
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


def prediction_confidences(predictions: AnyArray, truths: AnyArray) -> AnyArray:
    """Minus the logarithm of the squared error in units of the truths' mean square, `(..., m)` from `(..., m)`.

    Of each model alone, so that confidences of models that are seen one at a time can be compared.

    >>> prediction_confidences(np.array([3.0, 1.0]), np.array([1.0, 0.0])).round(4).tolist()
    [-2.0794, -0.6931]
    """
    truths = np.asarray(truths, dtype=np.float64)
    scale = float(np.mean(truths**2)) or 1.0
    squares = (np.asarray(predictions, dtype=np.float64) - truths) ** 2
    return np.asarray(-np.log(np.maximum(squares / scale, _SMALLEST)))
