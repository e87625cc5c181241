"""CSV (plain or gzipped) and Parquet files as pandas frames."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audit.core.confined import process
from audit.data.text_files import parse, read_cells

EXACT = 2**53  # whole numbers beyond are not all distinguished as float64
_JOB, _CELLS_JOB = "audit.data.table_columns:read_columns", "audit.data.table_columns:read_whole_numbers"


def read_table(content: bytes, place: Path, *, columns: list[str] | None = None, separator: str = ",", skip: int = 0) -> Any:
    """The pandas frame in a CSV, gzipped CSV or Parquet file, '?' and 'NA' kept; `DataError` if it is damaged or has no row."""
    return read_by_separators(content, place, [separator], columns=columns, skip=skip)[0]


def read_by_separators(
    content: bytes, place: Path, separators: Sequence[str], *, columns: list[str] | None = None, skip: int = 0
) -> tuple[Any, str]:
    """The frame by the separator that gives most columns, and that separator; errors as of `read_table`."""
    import pandas as pd

    facts, arrays = parse(_JOB, content, place, {"columns": columns, "separators": list(separators), "skip": skip})
    names = read_cells(arrays.pop("names", None), place)
    is_whole = len(arrays) == len(names) and all(str(number) in arrays for number in range(len(names)))
    if not is_whole or facts.get("separator") not in separators:
        raise process.form_error(place.name)
    data = [arrays[str(number)] for number in range(len(names))]
    series = [pd.Series(read_cells(part, place), dtype=object) if part.dtype.kind == "S" else pd.Series(part) for part in data]
    if len({len(part) for part in series}) > 1 or not series or not len(series[0]):
        raise process.form_error(place.name)
    frame = pd.concat(series, axis=1)
    frame.columns = pd.Index([str(name) for name in names], dtype=object)
    return frame, facts["separator"]


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
        arrays = parse(_CELLS_JOB, content, place, {"column": str(name)})[1]
        if "cells" not in arrays:
            continue
        texts = read_cells(arrays["cells"], place)
        if len(texts) != len(frame) or not all(text is None or isinstance(text, str) for text in texts):
            raise process.form_error(place.name)
        numbers = [None if text is None else int(text) for text in texts]  # a Series of these would be floats again
        fits = all(number is None or abs(number) < 2**63 for number in numbers)
        columns[name] = pd.array(numbers, dtype="Int64") if fits else pd.Series(texts, dtype=object)
    return frame.assign(**columns) if columns else frame
