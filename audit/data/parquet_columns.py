"""Parquet files, parsed in the confined process: plain columns come out of it, of numbers or of texts."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from audit.core import memory
from audit.core.confined import process
from audit.core.confined.arrays import pack, unpack
from audit.core.confined.worker import Message
from audit.core.errors import DataError
from audit.data.source import DAMAGE

_JOB, _CELLS_JOB = "audit.data.parquet_columns:read_columns", "audit.data.parquet_columns:read_whole_numbers"
_SPARE, _RATIO = 2**28, 32  # bytes that a file may unpack to: that many and so many times its size, on a machine with enough
MOST_COLUMNS = 20_000
LOADED: list[str] = []


def read(content: bytes, place: Path) -> Any:
    """The pandas frame of a Parquet file; cells of columns without numbers are text, numbers, truth values or None.

    Raises:
        DataError: no such file, a damaged one, or one that unpacks to far more than it holds.
    """
    import pandas as pd

    arrays = _ask(_JOB, content, place, {})
    names = _cells(arrays.pop("names", None), place)
    if len(arrays) != len(names) or any(str(number) not in arrays for number in range(len(names))):
        raise process.form_error(place.name)
    columns = [arrays[str(number)] for number in range(len(names))]
    series = [
        pd.Series(_cells(column, place), dtype=object) if column.dtype.kind == "S" else pd.Series(column) for column in columns
    ]
    frame = pd.concat(series, axis=1) if series else pd.DataFrame()
    frame.columns = pd.Index([str(name) for name in names], dtype=object)
    return frame


def whole_numbers(content: bytes, name: str, place: Path) -> list[str | None] | None:
    """The cells of a column of whole numbers as text; None if it holds others."""
    arrays = _ask(_CELLS_JOB, content, place, {"column": name})
    return _cells(arrays["cells"], place) if "cells" in arrays else None


def _ask(job: str, content: bytes, place: Path, facts: dict[str, Any]) -> dict[str, Any]:
    limit = min(_SPARE + _RATIO * len(content), memory.machine() // 4)
    reply, body = process.read(
        job, content, place.name, memory_bytes=4 * limit, limit=limit, facts={"place": str(place), "limit": limit, **facts}
    )
    return unpack(reply.get("arrays"), body, place.name)


def _cells(column: Any, place: Path) -> list[Any]:
    try:
        cells = json.loads(column.tobytes().rstrip(b"\0"))
    except (AttributeError, ValueError, RecursionError) as error:
        raise process.form_error(place.name) from error
    if not isinstance(cells, list) or not all(cell is None or isinstance(cell, str | int | float | bool) for cell in cells):
        raise process.form_error(place.name)
    return cells


def prepare(header: Mapping[str, Any]) -> None:
    """Import what reads, before memory is limited."""
    import pandas as pd
    import pyarrow.parquet

    LOADED.extend((pd.__name__, pyarrow.parquet.__name__))


def read_columns(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """The columns of the file; runs inside the confined process.

    Raises:
        DataError: as `read`.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet

    place = header["place"]
    try:
        metadata = pyarrow.parquet.read_metadata(io.BytesIO(content))
        if metadata.num_columns > MOST_COLUMNS:
            raise DataError(
                f"{place} has {metadata.num_columns:,} columns; expected at most {MOST_COLUMNS:,} (is it turned on its side?)"
            )
        if 8 * metadata.num_rows * metadata.num_columns > header["limit"]:
            raise DataError(
                f"{place} holds {metadata.num_rows:,} rows of {metadata.num_columns} columns, more than fit into memory"
            )
        frame = pd.read_parquet(io.BytesIO(content), use_threads=False).reset_index(drop=True)
        arrays = {"names": _text([str(name) for name in frame.columns])}
        for number in range(frame.shape[1]):
            column = frame.iloc[:, number]
            if not isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":  # `Int64`: as numpy holds it
                column = (
                    column.astype(np.float64) if column.isna().any() else column.astype(np.dtype(str(column.dtype).lower()))
                )
            is_plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"
            arrays[str(number)] = column.to_numpy() if is_plain else _texts(column, header["limit"], place)
        rows, body = pack(arrays)
    except (*DAMAGE, pa.ArrowException) as error:
        reason = str(error).strip().partition("\n")[0][:300] or "it asks for too much memory"
        raise DataError(f"{place} cannot be read as a table: {reason}. Expected Parquet") from error
    if len(body) > header["limit"]:
        raise DataError(f"{place} unpacks to {len(body):,} bytes from {len(content):,}; write it as CSV, or in parts")
    return ({"arrays": rows}, body), None


def read_whole_numbers(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """The cells of one column of whole numbers; runs inside the confined process."""
    import pyarrow.parquet

    column = pyarrow.parquet.read_table(io.BytesIO(content), columns=[header["column"]], use_threads=False).column(0)
    if not str(column.type).startswith(("int", "uint")):
        return ({"arrays": []}, b""), None
    rows, body = pack({"cells": _text([None if cell is None else str(cell) for cell in column.to_pylist()])})
    return ({"arrays": rows}, body), None


def _text(cells: list[Any]) -> Any:
    return np.array([json.dumps(cells).encode()], dtype="S")


def _texts(column: Any, limit: int, place: str) -> Any:
    """The cells of a column as JSON; refused before they are joined, since one text may be in every row."""
    cells = [_plain(cell) for cell in column.astype(object)]
    size = sum(len(cell) for cell in cells if isinstance(cell, str))
    if size > limit:
        raise DataError(f"{place} unpacks to {size:,} letters of text; write it as CSV, or in parts")
    return _text(cells)


def _plain(cell: Any) -> Any:
    if cell is None or isinstance(cell, str | bool | int | float):
        return cell
    if isinstance(cell, np.generic) and cell.dtype.kind in "biuf":
        return cell.item()
    return None if type(cell).__name__ in ("NAType", "NaTType") else str(cell)
