"""Texts in files: JSON lines, CSV, Parquet, a `datasets` folder on disk, plain text; packed by gzip or xz or not."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from audit.core import memory
from audit.core.errors import ConfigError, DataError
from audit.data.source import DAMAGE, numbered, read_bytes

PLAIN = (".txt", ".text", ".md", ".tokens", ".raw", "")
_BLOCK = 1 << 20


def read_texts(place: Path, column: str, *, whole: bool = False) -> tuple[list[str], list[tuple[str, bytes]]]:
    """Return the texts of a file or folder, and what was read of it, by name.

    Args:
        place: its ending says the format: .jsonl, .csv, .parquet, or plain text, if each line that is not empty is a text;
            a folder as `datasets` saves it holds .arrow files. Another .gz or .xz behind it is unpacked.
        column: key of a JSON object, name of a column, or its number (from 0) in a CSV file without a header.
        whole: whole numbers are read too, as classes and users have them.

    Raises:
        DataError: it cannot be read, or a record has no such text; names the record.
    """
    if place.is_dir():
        return _arrow_folder(place, column, whole)
    content = read_bytes(place, "texts")
    name = place.name.lower()
    text_bytes, name = _unpack(content, place, name)
    suffix = Path(name).suffix
    if suffix in (".jsonl", ".ndjson"):
        texts = list(_json_lines(text_bytes, place, column, whole))
    elif suffix == ".csv":
        texts = list(_csv(text_bytes, place, column))
    elif suffix == ".parquet":
        texts = _column(functools.partial(_parquet, text_bytes), place, column, whole)
    elif suffix in PLAIN and whole:
        raise ConfigError(f"data: {place} is plain text, which has no column '{column}'; use .jsonl, .csv or .parquet")
    elif suffix in PLAIN:
        texts = [line for line in _decode(text_bytes, place).splitlines() if line.strip()]
    else:
        raise ConfigError(
            f"data.path: {place} ends in '{suffix}'; expected .jsonl, .csv, .parquet, .txt, or a folder of .arrow"
        )
    if not texts:
        raise DataError(f"{place} holds no text; expected at least one record")
    return texts, [(place.name, content)]


def whole_text(place: Path) -> tuple[str, list[tuple[str, bytes]]]:
    """Return a plain text as it is, and what was read.

    Raises:
        DataError: it cannot be read as text.
    """
    content = read_bytes(place, "texts")
    return _decode(_unpack(content, place, place.name.lower())[0], place), [(place.name, content)]


def _unpack(content: bytes, place: Path, name: str) -> tuple[bytes, str]:
    openers: dict[str, Callable[[io.BytesIO], Any]] = {".gz": gzip.open, ".xz": lzma.open}
    suffix = Path(name).suffix
    if suffix not in openers:
        return content, name
    limit, parts, size = memory.machine() // 4, [], 0
    try:
        with openers[suffix](io.BytesIO(content)) as stream:
            while block := stream.read(_BLOCK):
                size += len(block)
                if size > limit:
                    raise DataError(f"{place} unpacks to more than {memory.text(limit)}, a quarter of the memory")
                parts.append(block)
    except DAMAGE as error:
        raise DataError(f"{place} cannot be unpacked ({error}); was its download or copy cut short?") from error
    return b"".join(parts), name.removesuffix(suffix)


def _decode(content: bytes, place: Path) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{place} is not UTF-8 at byte {error.start}; convert it (iconv -t utf-8)") from error


def _json_lines(content: bytes, place: Path, column: str, whole: bool) -> Iterator[str]:
    for number, line in enumerate(_decode(content, place).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}, line {number}: no JSON ({error}); expected one object a line") from error
        text = value.get(column) if isinstance(value, dict) else None
        if whole and _is_whole(text):
            text = str(text)
        if not isinstance(text, str):
            keys = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
            raise DataError(
                f"{place}, line {number}: no text under '{column}', only {keys or 'nothing'}; name it in data.column"
            )
        yield text


def _csv(content: bytes, place: Path, column: str) -> Iterator[str]:
    rows = csv.reader(io.StringIO(_decode(content, place), newline=""))
    try:
        header: list[str] = [] if column.isdecimal() else next(rows, [])
        if header and column not in header:
            raise DataError(f"{place} has no column '{column}'; it has: {', '.join(header)}; name one in data.column")
        at = int(column) if column.isdecimal() else header.index(column) if header else 0
        for number, row in enumerate(rows, start=1 + bool(header)):
            if not row:
                continue
            if at >= len(row):
                raise DataError(f"{place}, row {number}: {len(row)} columns; data.column is '{column}'")
            yield row[at]
    except csv.Error as error:
        raise DataError(f"{place}: no CSV ({error})") from error


def _parquet(content: bytes) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(io.BytesIO(content))


def _arrow_folder(place: Path, column: str, whole: bool) -> tuple[list[str], list[tuple[str, bytes]]]:
    files = sorted(place.glob("*.arrow"))
    if not files:
        raise DataError(f"{place} is a folder without .arrow files; expected one split as datasets' save_to_disk writes it")
    texts: list[str] = []
    contents = [(file.name, read_bytes(file, "texts")) for file in files]
    for name, content in contents:
        texts += _column(functools.partial(_arrow, content), place / name, column, whole)
    return texts, contents


def _arrow(content: bytes) -> Any:
    import pyarrow

    return pyarrow.ipc.open_stream(io.BytesIO(content)).read_all()


def _column(read: Callable[[], Any], place: Path, column: str, whole: bool) -> list[str]:
    try:
        table = read()
        names = list(table.column_names)
        values = table.column(column).to_pylist() if column in names else None
    except DAMAGE as error:
        raise DataError(f"{place} cannot be read: {error}") from error
    if values is None:
        raise DataError(f"{place} has no column '{column}'; it has: {', '.join(names)}; name one in data.column")
    if whole:
        values = [str(value) if _is_whole(value) else value for value in values]
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(f"{place}: {numbered(number)} holds {type(value).__name__} in '{column}'; expected text")
    texts: list[str] = values
    return texts


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
