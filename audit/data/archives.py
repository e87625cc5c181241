"""Arrays in npz files, whoever wrote them."""

from __future__ import annotations

from pathlib import Path

from audit.core.confined import process
from audit.core.confined.arrays import unpack
from audit.core.data import Array
from audit.core.errors import DataError
from audit.data import npz_arrays

_JOB = "audit.data.npz_arrays:read_arrays"
_SPARE = 2**24


def read_npz(content: bytes, place: Path) -> dict[str, Array]:
    """All arrays of an npz file, read without pickle, in a confined process.

    Raises:
        DataError: no npz file, a damaged one, or one that holds pickled objects.
    """
    if content.startswith(b"\x93NUMPY"):
        raise DataError(f"{place} is a single array; expected an npz file with named arrays (numpy.savez)")
    if not content.startswith(b"PK"):
        raise DataError(
            f"{place} is not an npz file: it does not begin as a zip archive does. Expected a file written by numpy.savez"
        )
    limit = npz_arrays.most_unpacked(len(content)) + len(content)
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
