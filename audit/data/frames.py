"""CSV (plain or gzipped) and Parquet files as pandas frames."""

from __future__ import annotations

import gzip
import io
import warnings
from pathlib import Path
from typing import Any

from audit.core.errors import DataError
from audit.data.source import DAMAGE


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
                frame = pd.read_parquet(io.BytesIO(content))
            else:
                frame = _csv(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content, columns, separator, skip)
        text = [name for name in frame.columns if frame[name].dtype.kind not in "biuf"]
        frame = frame.astype(dict.fromkeys(text, object))  # decodes every cell here, where a damaged one is an error
    except (*DAMAGE, pa.ArrowException, pd.errors.ParserWarning) as error:
        raise DataError(
            f"{place} cannot be read as a table: {str(error).strip()}. Expected CSV (plain or gzipped, columns separated by "
            f"{separator!r}) or Parquet"
        ) from error
    if len(frame) == 0:
        raise DataError(f"{place} holds no row; expected at least one record")
    return frame


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
