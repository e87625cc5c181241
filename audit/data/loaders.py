"""Records of a torch `Dataset` or `DataLoader` as arrays, in the order of the data set whatever the loader shuffles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError

BATCH = 256


class IndexSource(Protocol):
    """Records by position, as a `torch.utils.data.Dataset` gives them: each `(x, y)`, or a mapping with x and y."""

    def __getitem__(self, index: Any, /) -> Any: ...


@runtime_checkable
class Loader(Protocol):
    """A `torch.utils.data.DataLoader`, as far as it is looked at here."""

    @property
    def dataset(self) -> Any: ...

    @property
    def sampler(self) -> Any: ...

    @property
    def collate_fn(self) -> Any: ...


def is_indexed(side: object) -> bool:
    """True if a value gives records by position and knows how many there are."""
    return hasattr(side, "__getitem__") and hasattr(side, "__len__")


def of_dataset(dataset: Any, name: str) -> dict[str, Array]:
    """Return x `(n, ...)` and y `(n,)` of a data set; `name` is what messages call it.

    Raises:
        DataError: it holds no record, or records that are not `(x, y)` of one shape.
    """
    pairs = [_pair(dataset[index], name) for index in range(_size(dataset, name))]
    if not pairs:
        raise DataError(f"{name}: the data set is empty; expected at least one record")
    shapes = sorted({np.shape(x) for x, _ in pairs})
    if len(shapes) > 1:
        raise DataError(f"{name}: records of shapes {shapes[0]} and {shapes[1]}; expected one, pad them or give arrays")
    return {"x": np.stack([array(x) for x, _ in pairs]), "y": np.stack([array(y) for _, y in pairs])}


def of_loader(loader: Loader, name: str) -> dict[str, Array]:
    """Return x and y of the records that a loader draws from, batched by its `collate_fn`, in the order of its data set.

    Raises:
        DataError: its sampler gives records no fixed place, or a batch is not `(x, y)`.
    """
    rows = rows_of_loader(loader, name)
    batches = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
    pairs = [_pair(loader.collate_fn([loader.dataset[row] for row in batch]), name) for batch in batches]
    if not pairs:
        raise DataError(f"{name}: the loader has no record; expected at least one")
    return {"x": np.concatenate([array(x) for x, _ in pairs]), "y": np.concatenate([array(y) for _, y in pairs])}


def rows_of_loader(loader: Loader, name: str) -> list[int]:
    """Positions in the data set, ascending, of all that the loader draws."""
    sampler, size = loader.sampler, _size(loader.dataset, name)
    kind = type(sampler).__name__
    whole = kind == "SequentialSampler" or (kind == "RandomSampler" and not sampler.replacement and len(sampler) == size)
    if whole and getattr(loader, "batch_size", None) is not None:
        return list(range(size))
    if kind == "SubsetRandomSampler":
        return sorted(int(row) for row in sampler.indices)
    raise DataError(
        f"{name}: a loader with {kind} and batch_size {getattr(loader, 'batch_size', None)} draws records that have no fixed "
        "place; give the Dataset (or a Subset of it) itself"
    )


def _size(dataset: Any, name: str) -> int:
    if not is_indexed(dataset):
        raise DataError(f"{name}: a {type(dataset).__name__} has no length or no positions; give a data set that has both")
    return len(dataset)


def _pair(record: Any, name: str) -> tuple[Any, Any]:
    if isinstance(record, Mapping) and {"x", "y"} <= set(record):
        return record["x"], record["y"]
    if isinstance(record, Iterable) and not isinstance(record, Mapping | str):
        parts = tuple(record)
        if len(parts) == 2:
            return parts[0], parts[1]
    raise DataError(f"{name}: a record is a {type(record).__name__}; expected (x, y), or a mapping with x and y")


def array(value: Any) -> Array:
    """Return a tensor of any device, or whatever else holds numbers, as an array."""
    for step in ("detach", "cpu", "numpy"):
        if not hasattr(value, step):
            break
        value = getattr(value, step)()
    return np.asarray(value)
