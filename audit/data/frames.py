"""CSV (plain or gzipped) and Parquet files as pandas frames."""

from __future__ import annotations

import csv
import gzip
import io
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from audit.core import memory
from audit.core.errors import DataError
from audit.data import parquet_columns
from audit.data.parquet_columns import MOST_COLUMNS
from audit.data.source import DAMAGE

EXACT = 2**53  # whole numbers beyond are not all distinguished as float64


def read_table(content: bytes, place: Path, *, columns: list[str] | None = None, separator: str = ",", skip: int = 0) -> Any:
    """The pandas frame in a CSV, gzipped CSV or Parquet file; text cells keep '?' and 'NA' as they are.

    Raises:
        DataError: the file cannot be parsed, or holds no row.
    """
    import pandas as pd
    import pyarrow as pa

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows with more cells than names lose data
            if content[:4] == b"PAR1":
                frame = parquet_columns.read(content, place)
            else:
                text = _unpack(content, place) if content[:2] == b"\x1f\x8b" else content
                header = _header(text, place, separator, skip)
                frame = _csv(text, columns, separator, skip)
                if columns is None:
                    _refuse_names(header, frame, place)
        words = [name for name in frame.columns if frame[name].dtype.kind not in "biuf"]
        frame = frame.astype(dict.fromkeys(words, object))  # decodes every cell here, if a damaged one is an error
    except UnicodeDecodeError as error:
        raise DataError(f"{place} is not text in UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from error
    except (*DAMAGE, csv.Error, pa.ArrowException, pd.errors.ParserWarning) as error:
        raise DataError(
            f"{place} cannot be read as a table: {str(error).strip()[:300]}. Expected CSV (plain or gzipped, columns separated "
            f"by {separator!r}) or Parquet"
        ) from error
    if len(frame) == 0:
        raise DataError(f"{place} holds no row; expected at least one record")
    return frame


def with_exact_numbers(frame: Any, content: bytes, place: Path) -> Any:
    """The frame of `read_table` with whole numbers beyond 2^53 beside missing cells exact, which pandas reads as floats.

    Such a column becomes `Int64`, or text if its numbers are larger than that holds.
    """
    import pandas as pd

    columns = {}
    for name in frame.columns:
        values = frame[name]
        if values.dtype.kind != "f" or not values.isna().any() or not values.abs().max() >= EXACT:
            continue
        texts = _texts(content, str(name), place)
        if texts is None:
            continue
        numbers = [None if pd.isna(text) else int(text) for text in texts]  # a Series of these would be floats again
        fits = all(number is None or abs(number) < 2**63 for number in numbers)
        columns[name] = pd.array(numbers, dtype="Int64") if fits else texts.astype(object)
    return frame.assign(**columns) if columns else frame


def _texts(content: bytes, name: str, place: Path) -> Any:
    """The cells of a column as text, None if one is no whole number as it is written."""
    import pandas as pd

    if content[:4] == b"PAR1":
        numbers = parquet_columns.whole_numbers(content, name, place)
        return None if numbers is None else pd.Series(numbers, dtype=object)
    text = _unpack(content, place) if content[:2] == b"\x1f\x8b" else content
    cells = pd.read_csv(
        io.BytesIO(text), usecols=[name], dtype=object, skipinitialspace=True, keep_default_na=False, na_values=[""]
    )[name]
    full = cells.dropna().map(lambda cell: cell.strip().lstrip("+-").isdigit())
    return cells if full.all() else None


def _header(text: bytes, place: Path, separator: str, skip: int) -> list[str]:
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


def _refuse_names(header: list[str], frame: Any, place: Path) -> None:
    """Raise `DataError` if a header names two columns alike, which pandas would number, or can be read in two ways."""
    twice = sorted(name for name, count in Counter(header).items() if name and count > 1)
    if twice:
        raise DataError(f"{place} has more than one column '{twice[0]}'; give every column a different name")
    names = [str(name).strip() for name in frame.columns]
    if len(names) != len(header) or any(cell not in ("", name) for cell, name in zip(header, names, strict=True)):
        raise DataError(f"{place}: its header can be read in more than one way; quote names whole or not at all")


def _refuse_wide(columns: int, place: Path) -> None:
    if columns > MOST_COLUMNS:
        raise DataError(f"{place} has {columns:,} columns; expected at most {MOST_COLUMNS:,} (is it turned on its side?)")


def _unpack(content: bytes, place: Path) -> bytes:
    """The text in a gzip file, or `DataError` if it is more than fits into memory."""
    limit = memory.machine() // 4
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        text = file.read(limit + 1)
    if len(text) > limit:
        raise DataError(f"{place} unpacks to more than {memory.text(limit)}, a quarter of this machine's memory")
    return text


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
