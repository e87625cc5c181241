"""Arrays in npz files, whoever wrote them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from audit.core import memory
from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.source import DAMAGE


def read_npz(content: bytes, place: Path) -> dict[str, Array]:
    """All arrays of an npz file, read without pickle.

    Raises:
        DataError: no npz file, a damaged one, or one that holds pickled objects.
    """
    if content.startswith(b"\x93NUMPY"):
        raise DataError(f"{place} is a single array; expected an npz file with named arrays (numpy.savez)")
    if not content.startswith(b"PK"):
        raise DataError(
            f"{place} is not an npz file: it does not begin as a zip archive does. Expected a file written by numpy.savez"
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            _refuse_large(archive, place)
            return {name: archive[name] for name in archive.files}
    except DAMAGE as error:
        reason = (
            "it holds pickled Python objects, which could run code; store plain numbers or text"
            if "allow_pickle" in str(error)
            else f"{error}"
        )
        raise DataError(f"{place} cannot be read as npz: {reason}. Expected a file written by numpy.savez") from error


def _refuse_large(archive: Any, place: Path) -> None:
    """Raise `DataError` where what the archive says that it holds is more than half of the memory."""
    size = sum(entry.file_size for entry in archive.zip.infolist())
    if 2 * size > memory.machine():
        raise DataError(
            f"{place} unpacks to {memory.text(size)}, more than half of the {memory.text(memory.machine())} of memory"
        )


def only_keys(arrays: dict[str, Array], names: tuple[str, ...], optional: tuple[str, ...], place: Path) -> None:
    """Raise `DataError` naming the arrays that are missing or not understood."""
    missing = [name for name in names if name not in arrays]
    extra = [name for name in arrays if name not in names + optional]
    if missing or extra:
        wrong = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"also has {', '.join(extra)}"] * bool(extra)
        raise DataError(
            f"{place} holds the arrays {', '.join(sorted(arrays)) or '(none)'}: it {' and '.join(wrong)}. Expected "
            f"{', '.join(names)} and optionally {', '.join(optional)}; rename them or leave them out"
        )
