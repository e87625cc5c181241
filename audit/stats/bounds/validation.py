"""What enters a statistic, checked once. Ground floor: raises `ValueError`; callers word it for their users."""

from typing import Any

import numpy as np

from audit.stats.arrays import Array


def side(values: Any, name: str) -> Array:
    """`values` as a one-dimensional float64 array; infinities are allowed. Raises `ValueError` if it is empty, has another
    shape, or holds NaN.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} scores have shape {array.shape}; expected one dimension")
    if array.size == 0:
        raise ValueError(f"there are no {name} scores; both members and nonmembers are needed")
    if np.isnan(array).any():
        raise ValueError(f"{name} scores hold {int(np.isnan(array).sum())} NaN; remove or repair those values")
    return array


def fraction(value: float, name: str) -> float:
    """`value` itself, or `ValueError` unless it is strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value}; expected a number strictly between 0 and 1")
    return value
