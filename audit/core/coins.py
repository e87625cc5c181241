"""Which canaries are in which models, a bit for each pair: what is asked for becomes an array of true and false."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 20  # pairs that become bytes at once if all are gone through
_ARRAY_PAIRS = 1 << 24  # pairs of which `some_models` gives an array


class LazyArray(np.lib.mixins.NDArrayOperatorsMixin):
    """What is wherever an array is, and makes its numbers when asked for them; all at once for code that knows arrays alone."""

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if any(isinstance(value, LazyArray) for value in options.get("out") or ()):
            return NotImplemented  # they are read only
        arrays = [np.asarray(value) if isinstance(value, LazyArray) else value for value in inputs]
        return getattr(function, method)(*arrays, **options)

    def __getattr__(self, name: str) -> Any:
        """Return what an array of all the numbers has of this name."""
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        return getattr(np.asarray(self), name)


class Coins(LazyArray):
    """`(models, m)` bool, held as bits and read only. Rows, columns and blocks that are asked for are arrays.

    It is wherever such an array does; only what needs all pairs at once (`numpy.asarray`, arithmetic) makes a byte of each.

    Args:
        bits: `(total, ceil(m / 8))` uint8, as `numpy.packbits` makes them of rows.
        width: m.
        models: which of the rows these are; None for all, in their order.
    """

    dtype = np.dtype(bool)
    ndim = 2

    def __init__(self, bits: NDArray[np.uint8], width: int, models: NDArray[np.intp] | None = None) -> None:
        self.bits, self._models = bits.view(), models
        self.bits.flags.writeable = False
        self.shape = (len(bits) if models is None else len(models), width)
        self.size = self.shape[0] * width

    @classmethod
    def of(cls, rows: Iterable[NDArray[Any]], models: int, width: int) -> Coins:
        """Return the coins of `models` models, that come as arrays `(some, width)` of true and false, one after the other."""
        bits = np.empty((models, -(-width // 8)), dtype=np.uint8)
        start = 0
        for part in rows:
            bits[start : start + len(part)] = np.packbits(np.asarray(part, dtype=bool), axis=1)
            start += len(part)
        return cls(bits, width)

    def models(self, index: NDArray[np.intp] | slice) -> Coins:
        """The coins of some models, in their order; the bits are shared."""
        if self._models is None and isinstance(index, slice):
            return Coins(self.bits[index], self.shape[1])
        rows = np.arange(len(self.bits)) if self._models is None else self._models
        return Coins(self.bits, self.shape[1], rows[index])

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[NDArray[np.bool_]]:
        return (self[row] for row in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return any(value in block for block in self.blocks())

    def __getitem__(self, key: Any) -> NDArray[np.bool_]:
        rows, columns = key if isinstance(key, tuple) and len(key) == 2 else (key, slice(None))
        if isinstance(rows, int | np.integer):
            return np.asarray(self._unpack(self._read_bits(rows), slice(None))[columns])
        is_block = isinstance(rows, slice) and (isinstance(columns, slice) or np.ndim(columns) == 1)
        is_rows = not isinstance(key, tuple) and np.ndim(rows) == 1
        if is_block or is_rows:
            return self._unpack(self._read_bits(rows), columns)
        return np.asarray(np.asarray(self)[key])

    def _read_bits(self, rows: Any) -> NDArray[np.uint8]:
        return np.asarray(self.bits[rows if self._models is None else self._models[rows]])

    def _unpack(self, bits: NDArray[np.uint8], columns: Any) -> NDArray[np.bool_]:
        """The columns of some rows of bits, from the bytes that hold them alone."""
        width = self.shape[1]
        if isinstance(columns, slice) and columns.step in (None, 1):
            start, stop, _ = columns.indices(width)
            first = start // 8
            block = np.unpackbits(bits[..., first : -(-max(stop, start) // 8)], axis=-1)
            return np.asarray(block[..., start - 8 * first : max(stop, start) - 8 * first].view(bool))
        index = np.arange(width)[columns]
        return np.asarray(bits[..., index >> 3] >> (7 - (index & 7)).astype(np.uint8) & 1, dtype=bool)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("coins that are held as bits have no array of all; ask for a copy")
        full = self[:]
        return full if dtype is None else full.astype(dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        bits = self.bits if self._models is None else self.bits[self._models]
        return Coins, (np.ascontiguousarray(bits), self.shape[1])

    def blocks(self) -> Iterator[NDArray[np.bool_]]:
        """All rows as arrays, some models at a time, in order."""
        step = max(1, _BLOCK // max(self.shape[1], 1))
        return (self[start : start + step] for start in range(0, len(self), step))

    def sum(self, axis: int | None = None) -> Any:
        """Return how many coins are true: of all, of each canary (0) or of each model (1)."""
        if axis not in (None, 0, 1, -1, -2):
            raise ValueError(f"axis is {axis}; coins have axes 0 (models) and 1 (canaries)")
        if axis in (0, -2):
            return sum((block.sum(axis=0) for block in self.blocks()), np.zeros(self.shape[1], dtype=np.int64))
        of_models = np.concatenate([np.zeros(0, dtype=np.int64), *(block.sum(axis=1) for block in self.blocks())])
        return of_models.sum() if axis is None else of_models


def as_coins(included: Any) -> Any:
    """The coins `(k, m)` as they are: bits, or an array of true and false."""
    return included if isinstance(included, Coins) else np.asarray(included, dtype=bool)


def take_models(included: Any, models: Any) -> Any:
    """The coins of some models as they are, whatever they are held as."""
    return included.models(models) if isinstance(included, Coins) else included[models]


def some_models(included: Any, models: Any) -> Any:
    """The coins of some models for those who read them: an array where they are few, which third-party code may expect."""
    part = take_models(included, models)
    return np.asarray(part) if isinstance(part, Coins) and part.size <= _ARRAY_PAIRS else part
