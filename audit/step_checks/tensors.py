"""Named arrays, as models, updates and releases are here: their size, their distance, and plain ones of a given size."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import DataError

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


def demand_finite(tensors: Mapping[str, Any]) -> None:
    """Raise `DataError` if a parameter is NaN or infinite: every release would be, whatever the records are."""
    for name, tensor in tensors.items():
        values = np.asarray(tensor.detach().double().cpu() if hasattr(tensor, "detach") else tensor)
        if values.dtype.kind in "fc" and not np.isfinite(values).all():
            raise DataError(f"parameter '{name}' holds NaN or infinite values; check the step from weights that are finite")


def spread(shapes: Mapping[str, tuple[int, ...]], size: float) -> Tensors:
    """Return an update of that norm with equal entries, in single precision."""
    count = sum(math.prod(shape) for shape in shapes.values())
    return {name: np.full(shape, size / math.sqrt(count), dtype=np.float32) for name, shape in shapes.items()}


def zeros(shapes: Mapping[str, tuple[int, ...]]) -> Tensors:
    """Return a model of zeros."""
    return spread(shapes, 0.0)
