"""Third-party tables and texts, parsed in the confined process: plain columns come out of it, of numbers or of texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit.core import memory
from audit.core.confined import process
from audit.core.confined.arrays import pack, unpack
from audit.core.confined.worker import Message
from audit.core.data import Array
from audit.core.errors import DataError

_SPARE, _RATIO = 2**28, 32  # bytes that a file may unpack to: that many and so many times its size, on a machine with enough


def parse(job: str, content: bytes, place: Path, facts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the facts and the arrays that a job finds in a file.

    Raises:
        DataError: a damaged file, or one that unpacks to far more than it holds.
    """
    limit = min(_SPARE + _RATIO * len(content), memory.machine() // 4)
    header = {"place": str(place), "limit": limit, **facts}
    reply, body = process.read(job, content, place.name, memory_bytes=4 * limit, limit=limit, facts=header)
    return reply, unpack(reply.get("arrays"), body, place.name)


def answer(arrays: Mapping[str, Array], header: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> Message:
    """Return the reply of a job; runs inside the confined process.

    Raises:
        DataError: it is larger than the audit takes.
    """
    rows, body = pack(arrays)
    if len(body) > header["limit"]:
        raise DataError(f"{header['place']} unpacks to {memory.text(len(body))} of memory; give it in parts, or as npz")
    return {"arrays": rows, **(facts or {})}, body


def write_cells(cells: Sequence[Any]) -> Array:
    """Return cells (texts, numbers, truth values, None) as one array."""
    return np.array([json.dumps(cells).encode()], dtype="S")


def read_cells(array: Any, place: Path) -> list[Any]:
    """Return the cells that `write_cells` wrote.

    Raises:
        DataError: they are not in this form.
    """
    try:
        cells = json.loads(array.tobytes().rstrip(b"\0"))
    except (AttributeError, ValueError, RecursionError) as error:
        raise process.form_error(place.name) from error
    if not isinstance(cells, list) or not all(cell is None or isinstance(cell, str | int | float | bool) for cell in cells):
        raise process.form_error(place.name)
    return cells
