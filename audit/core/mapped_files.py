"""npy files that are mapped, so that each record is read from the file when it is used."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import DataError
from audit.core.files import file_sha256

LOG = logging.getLogger("audit")
_PROBE_BYTES, _PROBES = 1 << 16, 16
# size, times in nanoseconds of the last change of contents and of anything, and number of a file, on one machine
Stamp = tuple[int, int, int, int]
# by path and digest, the stamp of a file of another stamp that was read in this process and holds what it held
_EQUAL_STAMPS: dict[tuple[str, str], Stamp] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedFile:
    """An npy file that is mapped, not loaded: each record is read from the file when it is used.

    Attributes:
        path: on this machine and on every one that computes with its records.
        shape: in which its array is read, `(n, ...)`.
        probe: digest of its header and of some of its bytes, so that another file of that name is refused.
        sha256: of all its bytes, which are read again if its stamp alone is another.
        stamp: its state before anything of it was read; other processes compare theirs with this one.
    """

    path: str
    shape: tuple[int, ...]
    probe: str
    sha256: str
    stamp: Stamp

    @staticmethod
    def at(path: Path, shape: tuple[int, ...]) -> MappedFile:
        """The file at `path`, as it is now; all of its bytes are read. `OSError` if they cannot be."""
        stamp = _stamp(path)  # first, so that a change is seen that comes while the bytes are read
        digest = file_sha256(path)
        return MappedFile(path=str(path.absolute()), shape=shape, probe=_probe(path), sha256=digest, stamp=stamp)

    def open(self) -> NDArray[Any]:
        """The array, mapped: processes of one machine share its pages; `DataError` if the file is another."""
        path = Path(self.path)
        try:
            changed = _probe(path) != self.probe
        except OSError as error:
            raise DataError(
                f"{path}: cannot read ({error.strerror}); records that are mapped from a file are read where they lie, so it "
                "has to be at the same path on every machine that takes part"
            ) from error
        if changed:
            raise DataError(f"{path} is not the file that was read at the start; put that one back, or start again")
        return map_array(path).reshape(self.shape)

    def check(self) -> None:
        """Raise `DataError` if the file is another than it was: what was made of its records meanwhile may be of either.

        A file of the same size and another stamp (touched, copied, restored, on another machine, or changed and its time put
        back) is read as a whole, once in each process, and is the same if its bytes are; that they were others for a while
        in between is not seen then. A file that is cut short while its pages are read ends the process that reads (SIGBUS):
        this raises before it does.
        """
        try:
            is_same = self._is_same(_stamp(Path(self.path)))
        except OSError:
            is_same = False
        if not is_same:
            raise DataError(
                f"{self.path} was changed, moved or removed while the audit ran; its records are read where they lie, so it "
                "has to stay as it is. Put the file of the start back and continue with --resume, or start again"
            )

    def _is_same(self, stamp: Stamp) -> bool:
        """True if all bytes are those of the start; the stamp `stamp` is then as good as the first one."""
        if stamp in (self.stamp, _EQUAL_STAMPS.get((self.path, self.sha256))):
            return True
        path = Path(self.path)
        if stamp[0] != self.stamp[0] or file_sha256(path) != self.sha256 or _stamp(path) != stamp:
            return False
        _EQUAL_STAMPS[self.path, self.sha256] = stamp
        LOG.info("%s has another time of change and the same contents, which were read again; the run goes on", self.path)
        return True


def map_array(path: Path) -> NDArray[Any]:
    """The array of an npy file, mapped for reading, without pickle; `ValueError` if it is damaged, or holds objects."""
    return np.asarray(np.lib.format.open_memmap(path, mode="r"))


def _stamp(path: Path) -> Stamp:
    """Return what the file is like now; `st_ctime_ns` is a time that no one can put back."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _probe(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = file.seek(0, 2)
        digest.update(str(size).encode())
        for place in range(_PROBES):
            file.seek(place * max(0, size - _PROBE_BYTES) // (_PROBES - 1))
            digest.update(file.read(_PROBE_BYTES))
    return digest.hexdigest()


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
