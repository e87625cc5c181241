"""Batches of records as tuples of arrays, and the crafted records that probes add to them.

A batch is a tuple of arrays with records along the first axis: `(inputs, labels)` as a rule, and any number of arrays
as well. The floating-point arrays are what crafted records scale; a last integer array of shape `(n,)` holds labels.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import DataError

Array = NDArray[Any]
Batch = tuple[Array, ...]

NON_FINITE = (float("inf"), float("nan"), 1e38, -1e30)  # values that overflow, or poison, a norm in single precision

MOST_LABELS = 16


def check_batch(arrays: Sequence[Array], smallest: int) -> Batch:
    """Return the arrays as a batch.

    Raises:
        DataError: no arrays, arrays of unequal length, or fewer than `smallest` records.
    """
    if not arrays:
        raise DataError("the sample holds no arrays; give (inputs, labels) of a few ordinary records")
    bare = [array for array in arrays if not hasattr(array, "__len__") or isinstance(array, str) or np.ndim(array) == 0]
    if bare:
        kind = type(np.asarray(bare[0]).item()).__name__
        raise DataError(f"the sample holds a {kind}; expected arrays in the order in which the step takes them, labels last")
    lengths = [len(array) for array in arrays]
    if len(set(lengths)) > 1:
        raise DataError(f"the sample's arrays have {lengths} records; expected one length")
    if lengths[0] < smallest:
        raise DataError(f"the sample has {lengths[0]} records; step checks need at least {smallest} ordinary ones")
    return tuple(np.asarray(array) for array in arrays)


def rows(batch: Batch, index: Sequence[int] | slice) -> Batch:
    """Return the records at `index`, in that order (repetitions allowed)."""
    selection = index if isinstance(index, slice) else np.asarray(index, dtype=int)
    return tuple(array[selection] for array in batch)


def join(first: Batch, second: Batch) -> Batch:
    """Return the records of `first`, then those of `second`."""
    return tuple(np.concatenate([first_part, right]) for first_part, right in zip(first, second, strict=True))


def scale(record: Batch, factor: float) -> Batch:
    """Return the record with its floating-point arrays multiplied by `factor`."""
    return tuple(array * array.dtype.type(factor) if array.dtype.kind == "f" else array for array in record)


def fill(record: Batch, value: float) -> Batch:
    """Return the record with its first floating-point array set to `value`."""
    position = next((i for i, array in enumerate(record) if array.dtype.kind == "f"), None)
    return tuple(np.full_like(array, value) if i == position else array for i, array in enumerate(record))


def relabel(record: Batch, sample: Batch) -> Batch:
    """Return the record with another label of the sample, if the last array holds integer labels."""
    labels = sample[-1]
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        return record
    other_labels = np.setdiff1d(labels, record[-1])
    return record if other_labels.size == 0 else (*record[:-1], other_labels[:1].astype(labels.dtype))


def records_by_label(sample: Batch) -> dict[str, Batch]:
    """Return record 0 with each label of the sample, up to 16, by name; none if the last array holds no labels."""
    labels = sample[-1]
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        return {}
    record = rows(sample, [0])
    return {f"label {label}": (*record[:-1], np.array([label], labels.dtype)) for label in np.unique(labels)[:MOST_LABELS]}


def has_floats(batch: Batch) -> bool:
    """Return whether any array can be scaled."""
    return any(array.dtype.kind == "f" for array in batch)


def craft_records(sample: Batch) -> dict[str, Batch]:
    """Return single records of ordinary inputs, by name.

    "Opposed" records are record 1, of which batches under test hold copies, with another label: they turn a sum around.
    """
    first, conflicting = rows(sample, [0]), relabel(rows(sample, [1]), sample)
    return {"ordinary": first, "opposed": conflicting, "relabelled": relabel(first, sample)}


def scale_records(records: dict[str, Batch], scale: Callable[[Batch, float], Batch]) -> dict[str, Batch]:
    """Return records that stress a clip, made from `craft_records` by a function that scales; none without floats."""
    first, conflicting = records["ordinary"], records["opposed"]
    if not has_floats(first):
        return {}
    return {
        "zero": scale(first, 0.0),
        "scaled by 1e5": scale(first, 1e5),
        "opposed, scaled by 1e4": scale(conflicting, 1e4),
        "opposed, scaled by 30": scale(conflicting, 30.0),
    }
