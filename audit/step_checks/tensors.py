"""Named arrays, as models, updates and releases are here: their size, their distance, and plain ones of a given size."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]


def norm(tensors: Tensors) -> float:
    """Return the l2 norm over all tensors, in double precision; infinite if an entry is not finite."""
    if not all(np.isfinite(array).all() for array in tensors.values()):
        return math.inf
    return math.sqrt(sum(float(np.square(array, dtype=np.float64).sum()) for array in tensors.values()))


def distance(first: Tensors, second: Tensors) -> float:
    """Return the l2 distance over the tensors of `first`; infinite if an entry of either is not finite."""
    with np.errstate(invalid="ignore"):
        return norm({name: first[name] - second[name] for name in first})


def spread(shapes: Mapping[str, tuple[int, ...]], size: float) -> Tensors:
    """Return an update of that norm with equal entries, in single precision."""
    count = sum(math.prod(shape) for shape in shapes.values())
    return {name: np.full(shape, size / math.sqrt(count), dtype=np.float32) for name, shape in shapes.items()}


def zeros(shapes: Mapping[str, tuple[int, ...]]) -> Tensors:
    """Return a model of zeros."""
    return spread(shapes, 0.0)
