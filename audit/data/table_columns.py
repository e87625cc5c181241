"""Columns of CSV (plain or gzipped) and Parquet files: parsed by pandas inside the confined process."""

import csv
import gzip
import io
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from audit.core import files
from audit.core.confined.worker import Message
from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.source import DAMAGE
from audit.data.text_files import answer, load_arrow, write_cells

MOST_COLUMNS = 20_000
PARQUET, GZIP = b"PAR1", b"\x1f\x8b"
LIBRARIES: list[str] = []


def prepare(header: Mapping[str, Any]) -> None:
    """Import what reads, before memory is limited, which Arrow's own allocator reserves in large pieces."""
    readers = load_arrow()
    import pandas as pd  # loads Arrow, too

    LIBRARIES.extend((pd.__name__, *readers))


def read_columns(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """The columns of a file, by the separator that gives most of them; cells without numbers are text, truth values or None.
    `DataError` if it cannot be parsed, or unpacks to far more than it holds.
    """
    frames, refusal = [], DataError(f"{header['place']}: no separator is given")
    for separator in header["separators"]:
        try:
            frames.append((_parse(header, content, separator), separator))
        except DataError as error:
            refusal = error
    if not frames:
        raise refusal
    frame, separator = max(frames, key=lambda pair: pair[0].shape[1])
    arrays = {"names": write_cells([str(name) for name in frame.columns])}
    for number in range(frame.shape[1]):
        arrays[str(number)] = _plain_column(frame.iloc[:, number], header)
    return answer(arrays, header, {"separator": separator}), None


def read_whole_numbers(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """The cells of one column as text, if all are whole numbers as they are written; no array otherwise."""
    import pandas as pd

    name = header["column"]
    if content[:4] == PARQUET:
        column = _open_parquet(content).read(columns=[name], use_threads=False).column(0)
        is_whole = str(column.type).startswith(("int", "uint"))
        cells = [None if cell is None else str(cell) for cell in column.to_pylist()] if is_whole else []
    else:
        options: dict[str, Any] = {"dtype": object, "skipinitialspace": True, "keep_default_na": False, "na_values": [""]}
        texts = pd.read_csv(io.BytesIO(_unpack(content, header)), usecols=[name], **options)[name]
        is_whole = bool(texts.dropna().map(lambda cell: cell.strip().lstrip("+-").isdigit()).all())
        cells = [cell if isinstance(cell, str) else None for cell in texts]
    return answer({"cells": write_cells(cells)} if is_whole else {}, header), None


def _parse(header: Mapping[str, Any], content: bytes, separator: str) -> Any:
    """The frame, text columns of the type object."""
    import pandas as pd
    import pyarrow as pa

    place, columns, skip = header["place"], header["columns"], header["skip"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows with more cells than names lose data
            if content[:4] == PARQUET:
                frame = _parquet(content, header)
            else:
                text = _unpack(content, header)
                names = _header(text, place, separator, skip)
                frame = _csv(text, columns, separator, skip)
                if columns is None:
                    _refuse_names(names, frame, place)
        words = [name for name in frame.columns if frame[name].dtype.kind not in "biuf"]
        frame = frame.astype(dict.fromkeys(words, object))  # decodes every cell here, where a damaged one is an error
    except UnicodeDecodeError as error:
        raise DataError(f"{place} is not text in UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from error
    except (*DAMAGE, csv.Error, pa.ArrowException, pd.errors.ParserWarning) as error:
        reason = str(error).strip()[:300] or "it asks for too much memory"
        raise DataError(
            f"{place} cannot be read as a table: {reason}. Expected CSV (plain or gzipped, columns separated by {separator!r}) "
            "or Parquet"
        ) from error
    if len(frame) == 0:
        raise DataError(f"{place} holds no row; expected at least one record")
    return frame


def _open_parquet(content: bytes) -> Any:
    """The file, read by this thread alone: readers of data sets wait for ever for threads that cannot start here."""
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(io.BytesIO(content), pre_buffer=False)


def _parquet(content: bytes, header: Mapping[str, Any]) -> Any:
    file = _open_parquet(content)
    metadata = file.metadata
    _refuse_wide(metadata.num_columns, header["place"])
    if 8 * metadata.num_rows * metadata.num_columns > header["limit"]:
        raise DataError(
            f"{header['place']} holds {metadata.num_rows:,} rows of {metadata.num_columns} columns, more than fit into memory"
        )
    return file.read(use_threads=False).to_pandas(use_threads=False).reset_index(drop=True)


def _csv(content: bytes, columns: list[str] | None, separator: str, skip: int) -> Any:
    import pandas as pd

    return pd.read_csv(
        io.BytesIO(content),
        sep=r"\s+" if separator == " " else separator,
        skiprows=skip,
        skipinitialspace=True,
        header="infer" if columns is None else None,
        names=columns,
        index_col=False,
        keep_default_na=False,
        na_values=[""],
        low_memory=False,
    )


def _unpack(content: bytes, header: Mapping[str, Any]) -> bytes:
    """The text of a file, unpacked if it is a gzip file, or `DataError` if that is more than the file may take."""
    if content[:2] != GZIP:
        return content
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        text = file.read(header["limit"] + 1)
    if len(text) > header["limit"]:
        limit = files.text(header["limit"])
        raise DataError(f"{header['place']} unpacks to more than the {limit} of memory that a file of its size may take")
    return text


def _header(text: bytes, place: str, separator: str, skip: int) -> list[str]:
    """The cells of the first row that is not blank, or `DataError` if they are too many.

    A row may begin after blank lines and hold line breaks in quotes: it is read as pandas reads it, but before pandas does.
    """
    stream = io.TextIOWrapper(io.BytesIO(text), encoding="utf-8-sig", errors="replace", newline="")
    for _ in range(skip):
        stream.readline()
    lines = iter(stream.readline, "")
    rows = (
        (line.split() for line in lines) if separator == " " else csv.reader(lines, delimiter=separator, skipinitialspace=True)
    )
    cells = next((row for row in rows if any(cell.strip() for cell in row)), [])
    _refuse_wide(len(cells), place)
    return [cell.strip() for cell in cells]


def _refuse_names(header: list[str], frame: Any, place: str) -> None:
    """Raise `DataError` if a header names two columns alike, which pandas would number, or can be read in two ways."""
    twice = sorted(name for name, count in Counter(header).items() if name and count > 1)
    if twice:
        raise DataError(f"{place} has more than one column '{twice[0]}'; give every column a different name")
    names = [str(name).strip() for name in frame.columns]
    if len(names) != len(header) or any(cell not in ("", name) for cell, name in zip(header, names, strict=True)):
        raise DataError(f"{place}: its header can be read in more than one way; quote names whole or not at all")


def _refuse_wide(columns: int, place: str) -> None:
    if columns > MOST_COLUMNS:
        raise DataError(f"{place} has {columns:,} columns; expected at most {MOST_COLUMNS:,} (is it turned on its side?)")


def _plain_column(column: Any, header: Mapping[str, Any]) -> Array:
    """The column as numbers, or its cells as JSON; those are refused before they are joined: one text may be in every row."""
    if not isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":  # `Int64`: as numpy holds it
        column = column.astype(np.float64) if column.isna().any() else column.astype(np.dtype(str(column.dtype).lower()))
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return np.asarray(column.to_numpy())
    cells = [_plain_cell(cell) for cell in column.astype(object)]
    size = sum(len(cell) for cell in cells if isinstance(cell, str))
    if size > header["limit"]:
        raise DataError(f"{header['place']} unpacks to {size:,} letters of text; write it as CSV, or in parts")
    return write_cells(cells)


def _plain_cell(cell: Any) -> Any:
    if cell is None or isinstance(cell, str | bool | int | float):
        return cell
    if isinstance(cell, np.generic) and cell.dtype.kind in "biuf":
        return cell.item()
    return None if type(cell).__name__ in ("NAType", "NaTType") else str(cell)
