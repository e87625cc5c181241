"""npy files whose records are read where they lie."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import DataError
from audit.core.files import file_sha256

LOG = logging.getLogger("audit")
_PROBE_BYTES, _PROBES = 1 << 16, 16
Stamp = tuple[int, int, int]
"""Size, time of the last change in nanoseconds and number of a file, on one machine."""
_EQUAL_STAMPS: dict[tuple[str, str], Stamp] = {}
"""By path and digest, the stamp of a file of another time that was read in this process and holds what it held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedFile:
    """An npy file whose records are read where they lie.

    Attributes:
        path: on this machine and on every one that computes with its records.
        shape: in which its array is read, `(n, ...)`.
        probe: digest of its header and of some of its bytes, so that another file of that name is refused.
        sha256: of all its bytes, which are read again where its time alone is another; "" takes another time for a change.
    """

    path: str
    shape: tuple[int, ...]
    probe: str
    sha256: str = ""

    @staticmethod
    def at(path: Path, shape: tuple[int, ...], sha256: str = "") -> MappedFile:
        """The file at `path`, as it is now."""
        return MappedFile(path=str(path.absolute()), shape=shape, probe=_probe(path), sha256=sha256)

    def open(self) -> NDArray[Any]:
        """The array, mapped for reading: processes of one machine share its pages.

        Raises:
            DataError: it is gone, or another one.
        """
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

    def stamp(self) -> Stamp | None:
        """Return what the file is like now; None where it is gone."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns, status.st_ino

    def check(self, stamp: Stamp) -> None:
        """Raise `DataError` where the file is another than it was: what was made of its records meanwhile may be of either.

        A file of the same size and another time (touched, copied or restored) is read as a whole, once, and is the same where
        its bytes are; that they were others for a while in between is not seen then. A file that is cut short while its pages
        are read ends the process that reads (SIGBUS): this tells before it does.
        """
        new_stamp = self.stamp()
        if new_stamp is None or (new_stamp != stamp and not self._is_same(new_stamp, stamp)):
            raise DataError(
                f"{self.path} was changed, moved or removed while the audit ran; its records are read where they lie, so it "
                "has to stay as it is. Put the file of the start back and continue with --resume, or start again"
            )

    def _is_same(self, new_stamp: Stamp, stamp: Stamp) -> bool:
        """True where all bytes are those of the start; `new_stamp` is then as good as the first stamp."""
        if _EQUAL_STAMPS.get((self.path, self.sha256)) == new_stamp:
            return True
        if not self.sha256 or new_stamp[0] != stamp[0]:
            return False
        if file_sha256(Path(self.path)) != self.sha256 or self.stamp() != new_stamp:
            return False
        _EQUAL_STAMPS[self.path, self.sha256] = new_stamp
        LOG.info("%s has another time of change and the same contents, which were read again; the run goes on", self.path)
        return True


def map_array(path: Path) -> NDArray[Any]:
    """The array of an npy file, mapped for reading, without pickle.

    Raises:
        ValueError: it is damaged, or holds objects.
    """
    return np.asarray(np.lib.format.open_memmap(path, mode="r"))


def _probe(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = file.seek(0, 2)
        digest.update(str(size).encode())
        for place in range(_PROBES):
            file.seek(place * max(0, size - _PROBE_BYTES) // (_PROBES - 1))
            digest.update(file.read(_PROBE_BYTES))
    return digest.hexdigest()
