"""Records of a torch `Dataset` or `DataLoader` as arrays, in the order of the data set whatever the loader shuffles."""

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
    return hasattr(side, "__getitem__") and hasattr(side, "__len__")


def read_loader(loader: Loader, name: str) -> list[int]:
    """Positions in the data set, ascending, of all that the loader draws."""
    sampler, dataset = loader.sampler, loader.dataset
    if not is_indexed(dataset):
        raise DataError(f"{name}: a {type(dataset).__name__} has no length or no positions; give a data set that has both")
    kind, size = type(sampler).__name__, len(dataset)
    full = kind == "SequentialSampler" or (kind == "RandomSampler" and not sampler.replacement and len(sampler) == size)
    if full and getattr(loader, "batch_size", None) is not None:
        return list(range(size))
    if kind == "SubsetRandomSampler":
        return sorted(int(row) for row in sampler.indices)
    raise DataError(
        f"{name}: a loader with {kind} and batch_size {getattr(loader, 'batch_size', None)} draws records that have no fixed "
        "place; give the Dataset (or a Subset of it) itself"
    )


def array(value: Any) -> Array:
    """Return a tensor of any device, or whatever else holds numbers, as an array; `DataError` if some values are masked."""
    if np.ma.is_masked(value):
        raise DataError(
            f"an array of shape {value.shape} has {np.ma.count_masked(value)} masked values, which no array without a mask "
            "holds; leave those records out on all sides, or fill them: values.filled(...)"
        )
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        value = value.float()  # numpy has no such type
    if str(getattr(value, "layout", "")).startswith("torch.sparse"):
        value = value.to_dense()
    for step in ("detach", "cpu", "numpy"):
        if not hasattr(value, step):
            break
        value = getattr(value, step)()
    return np.asarray(value)
