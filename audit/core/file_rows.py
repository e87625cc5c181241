"""Records of an npy file in the process that runs an audit: read by calls that fail with an error if the file was cut.

A mapping is faster, but a page that a file no longer has ends the process that looks at it. Workers map: another process is
left to say what happened to them.
"""

import math
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import DataError

_COPY_BYTES = 1 << 28  # a file that holds no more than this is read at once


class FileRows:
    """Some rows of an npy file at a time, with what `RawArray` reads of arrays.

    Args:
        path: of the file, which stays open: one that takes its name is not read.
        shape: of the array, `(n, ...)`.
        dtype: of its numbers.
        offset: bytes before the first of them.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> None:
        self._path, self._offset = path, offset
        self.shape, self.dtype = shape, dtype
        self._row_bytes = math.prod(shape[1:]) * dtype.itemsize
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> NDArray[Any]:
        """The rows of a slice, or of numbers `(k,)`; `DataError` if the file does not hold them any more."""
        rows = np.arange(len(self))[index]
        values = np.empty((len(rows), *self.shape[1:]), self.dtype)
        if not values.size:
            return values
        target = values.reshape(-1).view(np.uint8).data
        ends = np.flatnonzero(np.diff(rows) != 1) + 1  # rows that follow each other are read together
        starts = np.concatenate([[0], ends])
        places = (self._offset + rows[starts] * self._row_bytes).tolist()
        bounds = (np.concatenate([starts, [len(rows)]]) * self._row_bytes).tolist()
        for place, start, stop in zip(places, bounds[:-1], bounds[1:], strict=True):
            self._read(target[start:stop], place)
        return values

    def _read(self, target: memoryview, place: int) -> None:
        size, count = len(target), 0
        while count < size:
            part = os.preadv(self._descriptor, [target[count:] if count else target], place + count)
            if not part:
                raise DataError(
                    f"{self._path} was cut while the audit ran: it ends before byte {place + size}. Its records are read where "
                    "they lie; put the file of the start back and continue with --resume, or start again"
                )
            count += part


def read_rows(path: Path, shape: tuple[int, ...]) -> Any:
    """The array of an npy file in the shape `(n, ...)` of its records: in memory if it is small, else read by rows.

    An array in Fortran's order has no rows that are together; it is mapped.

    Raises:
        ValueError: it is damaged, or holds objects.
    """
    mapped = np.lib.format.open_memmap(path, mode="r")
    is_small = mapped.nbytes <= _COPY_BYTES
    if not mapped.flags.c_contiguous:
        return (np.array(mapped) if is_small else np.asarray(mapped)).reshape(shape)
    rows = FileRows(path, shape, mapped.dtype, mapped.offset)
    return rows[:] if is_small else rows
