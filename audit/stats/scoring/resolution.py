"""Probabilities of exactly 0 and 1: how finely a model's outputs are resolved, and confidences smooth by that much."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_CERTAIN = 15.0  # a confidence (log odds) beyond the rounding of single precision near 1
_TOLERANCE = 1e-6  # distance of confidences that differ by rounding alone
_RARE = 0.01  # share of the resolved probabilities that may be closer to 0 or 1 than the resolution
_COARSEST = 0.1  # of outputs that are 0 or 1 alone


def resolution(confidences: Array) -> float | None:
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


def at_ends(values: Array) -> Array:
    """True for confidences at an end of the scale that several share; the same shape."""
    high, low = float(values.max()), float(values.min())
    ends = np.zeros(values.shape, dtype=bool)
    if high > _CERTAIN and np.count_nonzero(values >= high - _TOLERANCE) > 1:
        ends |= values >= high - _TOLERANCE
    if -low > _CERTAIN and np.count_nonzero(values <= low + _TOLERANCE) > 1:
        ends |= values <= low + _TOLERANCE
    return ends


def smooth(confidences: Array, step: float) -> Array:
    """Confidences of `(p + step) / (1 + 2 step)`, in the order of `p`, finite at 0 and 1.

    >>> smooth(np.array([0.0, 90.0]), 0.01).round(4).tolist()
    [0.0, 4.6151]
    """
    values = np.asarray(confidences, dtype=np.float64)
    log_p, log_q = -np.logaddexp(0.0, -values), -np.logaddexp(0.0, values)
    return np.asarray(np.logaddexp(log_p, np.log(step)) - np.logaddexp(log_q, np.log(step)))
