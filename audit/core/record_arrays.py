"""Records in the form that they are in, in memory or in a file, which turn into the numbers of models a batch at a time.

A `RecordArray` is wherever an array of records does: rows that are asked for become numbers, and only what needs all of
them at once (`numpy.asarray`, arithmetic, reshape) makes a copy of the whole.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.coins import LazyArray
from audit.core.errors import DataError
from audit.core.mapped_files import MappedFile

_ROWS = 4096  # that become numbers at once if all are asked for


class RecordArray(LazyArray, ABC):
    """`(n, ...)` numbers, of which only rows that are asked for are made: float32, or int64 if models take whole numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @abstractmethod
    def rows(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """`(len(index), ...)`: the records of these numbers, `(k,)`, none of them negative, as numbers of `dtype`."""

    @abstractmethod
    def take_rows(self, index: Any) -> RecordArray:
        """The records at `index` (numbers, a mask or a slice), in their order, without making their numbers."""

    @abstractmethod
    def check_files(self) -> None:
        """Raise `DataError` where a file that records are read from is another than when it was mapped."""

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Return how many numbers there are."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def nbytes(self) -> int:
        """Return how many bytes all the numbers would take."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[Any]:
        first, further = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        is_whole = first is None or first is Ellipsis or isinstance(first, tuple)
        if is_whole or (np.ndim(first) > 1 and np.asarray(first).dtype == bool):
            return np.asarray(np.asarray(self)[key])
        index = np.arange(len(self))[first]
        numbers = self.rows(index.reshape(-1))
        if not further:
            return numbers.reshape(*index.shape, *self.shape[1:])
        # a slice keeps its axis where it is; numbers and masks are paired with those of further axes
        place = slice(None) if isinstance(first, slice) else np.arange(index.size).reshape(index.shape)
        return np.asarray(numbers[(0 if index.ndim == 0 else place, *further)])

    def __contains__(self, value: Any) -> bool:
        return any(value in part for part in self.parts())

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (record for part in self.parts() for record in part)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("records in this form have no array of all their numbers; ask for a copy")
        values = np.empty(self.shape, self.dtype)
        for start, part in zip(range(0, len(self), _ROWS), self.parts(), strict=True):
            values[start : start + len(part)] = part
        return values if dtype is None else values.astype(dtype)

    def parts(self) -> Iterator[NDArray[Any]]:
        """All records as numbers, a few thousand at a time, in order."""
        for start in range(0, len(self), _ROWS):
            yield self.rows(np.arange(start, min(start + _ROWS, len(self))))

    def min(self, *arguments: Any, **options: Any) -> Any:
        """Return the least number of all, or what `numpy.min` makes of its arguments."""
        return self._apply_to_parts(np.min, arguments, options)

    def max(self, *arguments: Any, **options: Any) -> Any:
        """Return the largest number of all, or what `numpy.max` makes of its arguments."""
        return self._apply_to_parts(np.max, arguments, options)

    def _apply_to_parts(self, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if arguments or options or not self.size:
            return function(np.asarray(self), *arguments, **options)
        return function(np.array([function(part) for part in self.parts()]))


class RawArray(RecordArray):
    """Some rows of an array in its own type, each number of which becomes `(number - offset) / unit`.

    Args:
        raw: `(total, ...)`, kept as it is.
        index: `(n,)` which of its rows these are.
        scale: offset and unit, float64, as they are broadcast over a record; None for whole numbers, which become int64.
        file: that `raw` is mapped from, so that other processes map it too; None sends `raw` itself.
    """

    def __init__(
        self,
        raw: NDArray[Any],
        index: NDArray[Any],
        scale: tuple[NDArray[Any], NDArray[Any]] | None,
        file: MappedFile | None = None,
    ) -> None:
        self._raw, self._scale, self.file = raw, scale, file
        self._index = np.asarray(index, np.int64)
        self.shape = (len(index), *raw.shape[1:])
        self.dtype = np.dtype(np.int64 if scale is None else np.float32)
        self._numbers = _conversion(raw.dtype, scale)

    def rows(self, index: NDArray[np.intp]) -> NDArray[Any]:
        return self._numbers(self._raw[self._index[index]])

    def take_rows(self, index: Any) -> RawArray:
        return RawArray(self._raw, self._index[index], self._scale, self.file)

    def check_files(self) -> None:
        if self.file is not None:
            self.file.check()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.file is None:
            return RawArray, (self._raw, self._index, self._scale)
        return _open_again, (self.file, self._index, self._scale)


class Concatenation(RecordArray):
    """Records of several arrays of one kind, one after the other; `DataError` for records of different shapes."""

    def __init__(self, parts: Sequence[NDArray[Any] | RecordArray]) -> None:
        shapes = sorted({tuple(part.shape[1:]) for part in parts})
        if len(shapes) != 1:
            raise DataError(f"records of {' and '.join(map(str, shapes))} cannot stand side by side; expected one shape")
        self._parts = tuple(parts)
        self._starts = np.cumsum([0, *(len(part) for part in parts)])
        self.shape = (int(self._starts[-1]), *parts[0].shape[1:])
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def rows(self, index: NDArray[np.intp]) -> NDArray[Any]:
        if len(self._parts) == 1:
            return np.asarray(self._parts[0][index], self.dtype)
        values = np.empty((len(index), *self.shape[1:]), self.dtype)
        place = np.searchsorted(self._starts, index, side="right") - 1
        for number, part in enumerate(self._parts):
            own = np.flatnonzero(place == number)
            if len(own):
                values[own] = part[index[own] - self._starts[number]]
        return values

    def take_rows(self, index: Any) -> RecordArray:
        return _Subset(self, np.arange(len(self))[index])

    def check_files(self) -> None:
        for part in self._parts:
            if isinstance(part, RecordArray):
                part.check_files()


class SideBySide(RecordArray):
    """Several arrays `(n, ...)` of the same records, the numbers of each in one row, for models of several inputs."""

    def __init__(self, parts: Sequence[RecordArray]) -> None:
        self._parts = tuple(parts)
        self.shape = (len(parts[0]), sum(int(np.prod(part.shape[1:])) for part in parts))
        self.dtype = np.dtype(np.int64 if all(part.dtype.kind == "i" for part in parts) else np.float32)

    def rows(self, index: NDArray[np.intp]) -> NDArray[Any]:
        return np.concatenate([part.rows(index).reshape(len(index), -1).astype(self.dtype) for part in self._parts], axis=1)

    def take_rows(self, index: Any) -> SideBySide:
        return SideBySide([part.take_rows(index) for part in self._parts])

    def check_files(self) -> None:
        for part in self._parts:
            part.check_files()


class _Subset(RecordArray):
    """Some rows of another."""

    def __init__(self, whole: RecordArray, index: NDArray[np.intp]) -> None:
        self._whole, self._index = whole, index
        self.shape, self.dtype = (len(index), *whole.shape[1:]), whole.dtype

    def rows(self, index: NDArray[np.intp]) -> NDArray[Any]:
        return self._whole.rows(self._index[index])

    def take_rows(self, index: Any) -> RecordArray:
        return _Subset(self._whole, self._index[index])

    def check_files(self) -> None:
        self._whole.check_files()


def concatenate(parts: Sequence[Any]) -> Any:
    """The records of several arrays as one: an array where all are, else a `RecordArray` of them."""
    if len(parts) == 1:
        return parts[0]
    return Concatenation(parts) if any(isinstance(part, RecordArray) for part in parts) else np.concatenate(parts)


def scale_numbers(raw: NDArray[Any], scale: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[np.float32]:
    """`(raw - offset) / unit` in float64, as float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray((raw.astype(np.float64) - scale[0]) / scale[1], np.float32)


def _conversion(kind: np.dtype[Any], scale: tuple[NDArray[Any], NDArray[Any]] | None) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return what makes numbers of raw records, to the last bit what `scale_numbers` makes."""
    if scale is None:
        return functools.partial(_as_type, kind=np.int64)
    offset, unit = scale
    is_exact = kind.itemsize <= (8 if kind.kind == "f" else 4)  # in float64, so that rounding once is rounding twice
    if is_exact and not offset.any() and (unit == 1).all():
        return functools.partial(_as_type, kind=np.float32)
    short = (np.asarray(offset, np.float32), np.asarray(unit, np.float32))
    bytes_of = np.arange(256, dtype=np.uint8).reshape(-1, *[1] * offset.ndim)
    if kind == np.uint8 and np.array_equal(_short(bytes_of, short), scale_numbers(bytes_of, scale)):
        return functools.partial(_short, scale=short)
    return functools.partial(scale_numbers, scale=scale)


def _as_type(raw: NDArray[Any], kind: type) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        return raw.astype(kind, order="C", copy=False)


def _short(raw: NDArray[Any], scale: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[np.float32]:
    """The same in float32, in place, if the result equals that of float64 to the byte."""
    values: NDArray[np.float32] = np.subtract(raw, scale[0], dtype=np.float32)
    values /= scale[1]
    return values


def _open_again(file: MappedFile, index: NDArray[Any], scale: tuple[NDArray[Any], NDArray[Any]] | None) -> RawArray:
    return RawArray(file.open(), index, scale, file)
