"""Arrays in npz files, whoever wrote them."""

import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from audit.core import files
from audit.core.confined import process
from audit.core.confined.arrays import pack, unpack
from audit.core.confined.worker import Message
from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.source import DAMAGE

# Reading of npz files inside the confined process: the header of an entry is compared with its content before it is read.
MOST_PACKED, MOST_RATIO = 2**26, 32
_MOST_EMPTY = 2**24  # records without a number in them


def most_unpacked(size: int) -> int:
    """The bytes that an npz file of this size may unpack to."""
    return max(MOST_PACKED, MOST_RATIO * size)


def read_arrays(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """All arrays of an npz file, read without pickle, or `DataError`. Runs inside the confined process."""
    place = header["place"]
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _refuse_large(archive, len(content), place)
            arrays = {_key(entry): _array(archive, entry) for entry in archive.infolist()}
        rows, body = pack(arrays)
    except DAMAGE as error:
        reason = str(error).partition("\n")[0][:200] or "it asks for too much memory"
        if "allow_pickle" in reason or "Object arrays" in reason:
            reason = "it holds pickled Python objects, which could run code; store plain numbers or text"
        raise DataError(f"{place} cannot be read as npz: {reason}. Expected a file written by numpy.savez") from error
    return ({"arrays": rows}, body), None


def _refuse_large(archive: zipfile.ZipFile, size: int, place: str) -> None:
    """Raise `DataError` if what the archive says that it holds is more than half of the memory, or far more than the file."""
    unpacked_size = sum(entry.file_size for entry in archive.infolist())
    if 2 * unpacked_size > files.machine():
        raise DataError(
            f"{place} unpacks to {files.text(unpacked_size)}, more than half of the {files.text(files.machine())} of memory"
        )
    if unpacked_size > most_unpacked(size):
        raise DataError(
            f"{place} unpacks to {files.text(unpacked_size)} from {files.text(size)}, more than {MOST_RATIO} times as much; "
            "write it with numpy.savez, which does not pack"
        )


def _key(entry: zipfile.ZipInfo) -> str:
    return entry.filename.removesuffix(".npy")


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        body = entry.file_size - stream.tell()
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize != body:
        raise ValueError(f"'{_key(entry)}' states {shape} of {dtype} and holds {body} bytes")
    if math.prod(shape) * dtype.itemsize == 0 and max(shape, default=0) > _MOST_EMPTY:
        raise ValueError(f"'{_key(entry)}' states {max(shape):,} records that hold nothing")
    with archive.open(entry) as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


_JOB = "audit.data.archives:read_arrays"
_SPARE = 2**24


def read_npz(content: bytes, place: Path) -> dict[str, Array]:
    """All arrays of an npz file, read without pickle in a confined process, or `DataError` if it is none, or damaged."""
    if content.startswith(b"\x93NUMPY"):
        raise DataError(f"{place} is a single array; expected an npz file with named arrays (numpy.savez)")
    if not content.startswith(b"PK"):
        raise DataError(
            f"{place} is not an npz file: it does not begin as a zip archive does. Expected a file written by numpy.savez"
        )
    limit = most_unpacked(len(content)) + len(content)
    facts = {"place": str(place)}
    reply, body = process.read(_JOB, content, place.name, memory_bytes=3 * limit + _SPARE, limit=limit + _SPARE, facts=facts)
    return unpack(reply.get("arrays"), body, place.name)


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
