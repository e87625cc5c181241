"""Arrays of plain numbers and texts on their way out of a confined process: raw bytes, and a description that is checked."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from audit.core.confined.process import form_error

Array = np.ndarray[Any, Any]
_TYPE = re.compile(r"[<>|=][biufcSUmM](\d{1,12})(\[[\da-zA-Z]{1,8}\])?", re.ASCII)
_STEP = 64  # every array begins at a multiple, so that none is askew


def pack(arrays: Mapping[str, Array]) -> tuple[list[dict[str, Any]], bytes]:
    """Return a description of each array and the bytes of all; `ValueError` for other types than numbers, dates and texts."""
    rows, pieces, position = [], [], 0
    for name, array in arrays.items():
        if array.dtype.kind not in "biufcSUmM":
            raise ValueError(f"'{name}' has the type {array.dtype}; expected numbers or text")
        body = np.ascontiguousarray(array).tobytes()
        padding = -len(body) % _STEP
        rows.append({"name": name, "type": array.dtype.str, "shape": list(array.shape), "at": position})
        pieces += [body, bytes(padding)]
        position += len(body) + padding
    return rows, b"".join(pieces)


def unpack(rows: Any, body: bytearray, name: str) -> dict[str, Array]:
    """Return the arrays, which share the memory of `body`; `DataError` if file `name` is described otherwise than it is."""
    if not isinstance(rows, list):
        raise form_error(name)
    arrays = {}
    for row in rows:
        if not isinstance(row, dict) or not _is_plain(row):
            raise form_error(name)
        dtype = np.dtype(row["type"])
        count, start = math.prod(row["shape"]), row["at"]
        if start % _STEP or start + count * dtype.itemsize > len(body):
            raise form_error(name)
        if dtype.itemsize:
            values = np.frombuffer(body, np.uint8, count * dtype.itemsize, start).view(dtype)
        else:
            values = np.empty(count, dtype)
        arrays[row["name"]] = values.reshape(row["shape"])
    return arrays


def _is_plain(row: Mapping[str, Any]) -> bool:
    """Return whether a description has every entry in its form; the sizes are checked by the caller."""
    shape = row.get("shape")
    if not isinstance(shape, list) or len(shape) > 32 or not all(_is_count(size) for size in shape):
        return False
    if not isinstance(row.get("name"), str) or not _is_count(row.get("at")):
        return False
    kind = row.get("type")
    match = _TYPE.fullmatch(kind) if isinstance(kind, str) else None
    if match is None or (int(match.group(1)) == 0 and math.prod(shape) > 2**24):
        return False
    try:
        np.dtype(kind)
    except TypeError:
        return False
    return True


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**48
