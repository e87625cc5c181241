"""Texts in files: JSON lines, CSV, Parquet, a `datasets` folder on disk, plain text; packed by gzip or xz or not."""

import csv
import gzip
import io
import json
import lzma
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit.core import files
from audit.core.confined import process
from audit.core.confined.arrays import pack, unpack
from audit.core.confined.worker import Message
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.data.source import DAMAGE, numbered, read_bytes

# Third-party tables and texts, parsed in the confined process: plain columns come out of it, of numbers or of texts.
_SPARE, _RATIO = 2**28, 32  # bytes that a file may unpack to: that many and so many times its size, on a machine with enough


def parse(job: str, content: bytes, place: Path, facts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the facts and the arrays that a job finds in a file; `DataError` if it unpacks to far more than it holds."""
    limit = min(_SPARE + _RATIO * len(content), files.machine() // 4)
    header = {"place": str(place), "limit": limit, **facts}
    reply, body = process.read(job, content, place.name, memory_bytes=4 * limit, limit=limit, facts=header)
    return reply, unpack(reply.get("arrays"), body, place.name)


def answer(arrays: Mapping[str, Array], header: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> Message:
    """Return the reply of a job, or `DataError` if it is larger than the audit takes; runs inside the confined process."""
    rows, body = pack(arrays)
    if len(body) > header["limit"]:
        raise DataError(f"{header['place']} unpacks to {files.text(len(body))} of memory; give it in parts, or as npz")
    return {"arrays": rows, **(facts or {})}, body


def write_cells(cells: Sequence[Any]) -> Array:
    """Return cells (texts, numbers, truth values, None) as one array."""
    return np.array([json.dumps(cells).encode()], dtype="S")


def read_cells(array: Any, place: Path) -> list[Any]:
    """The cells that `write_cells` wrote; `DataError` if they are not in this form."""
    try:
        cells = json.loads(array.tobytes().rstrip(b"\0"))
    except (AttributeError, ValueError, RecursionError) as error:
        raise process.form_error(place.name) from error
    if not isinstance(cells, list) or not all(cell is None or isinstance(cell, str | int | float | bool) for cell in cells):
        raise process.form_error(place.name)
    return cells


PLAIN = (".txt", ".text", ".md", ".tokens", ".raw", "")
ARROW, COLUMNS = ".arrow", (".jsonl", ".ndjson", ".csv", ".parquet")
_BLOCK = 1 << 20
_JOB = "audit.data.text_files:read_file"
LIBRARIES: list[str] = []


def read_texts(place: Path, column: str, *, whole_numbers: bool = False) -> tuple[list[str], list[tuple[str, bytes]]]:
    """Return the texts of a file or folder, and what was read of it, by name.

    Args:
        place: its ending says the format: .jsonl, .csv, .parquet, or plain text, in which each line that is not empty is a
            text; a folder as `datasets` saves it holds .arrow files. Another .gz or .xz behind it is unpacked.
        column: key of a JSON object, name of a column, or its number (from 0) in a CSV file without a header.
        whole_numbers: read them too, as classes and users have them.

    Raises:
        ConfigError: a file of another ending, or a plain text, which has no columns, if whole numbers are asked for.
        DataError: it cannot be read, or a record has no such text; names the record.
    """
    if place.is_dir():
        return _arrow_folder(place, column, whole_numbers)
    content = read_bytes(place, "texts")
    suffix = _suffixes(place.name)[0]
    if suffix in PLAIN and whole_numbers:
        raise ConfigError(f"data: {place} is plain text, which has no column '{column}'; use .jsonl, .csv or .parquet")
    if suffix not in (*PLAIN, *COLUMNS):
        raise ConfigError(
            f"data.path: {place} ends in '{suffix}'; expected .jsonl, .csv, .parquet, .txt, or a folder of .arrow"
        )
    texts = _texts(content, place, {"suffix": suffix, "column": column, "whole": whole_numbers})
    if not texts:
        raise DataError(f"{place} holds no text; expected at least one record")
    return texts, [(place.name, content)]


def whole_text(place: Path) -> tuple[str, list[tuple[str, bytes]]]:
    """A plain text as it is, and what was read; `DataError` if it cannot be read as text."""
    content = read_bytes(place, "texts")
    (text,) = _texts(content, place, {"suffix": None})
    return text, [(place.name, content)]


def _suffixes(name: str) -> tuple[str, str]:
    """Return the ending that says the format of a file, and that which says how it is packed; either may be empty."""
    lower = name.lower()
    packing = Path(lower).suffix if Path(lower).suffix in (".gz", ".xz") else ""
    return Path(lower.removesuffix(packing)).suffix, packing


def _texts(content: bytes, place: Path, facts: Mapping[str, Any]) -> list[str]:
    _, arrays = parse(_JOB, content, place, {**facts, "packing": _suffixes(place.name)[1]})
    texts = read_cells(arrays.get("texts"), place)
    if not all(isinstance(text, str) for text in texts) or (facts["suffix"] is None and len(texts) != 1):
        raise process.form_error(place.name)
    return texts


def load_arrow() -> tuple[str, ...]:
    """Import Arrow's readers, which take memory from the system if that is set before they load; return their names."""
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    import pyarrow.ipc
    import pyarrow.parquet

    return pyarrow.ipc.__name__, pyarrow.parquet.__name__


def prepare(header: Mapping[str, Any]) -> None:
    """Import what reads, before memory is limited, which Arrow's own allocator reserves in large pieces."""
    if header["suffix"] in (ARROW, ".parquet"):
        LIBRARIES.extend(load_arrow())


def read_file(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """The texts of a file, or the whole without a format, in the confined process; errors as of `read_texts`."""
    place, suffix = Path(header["place"]), header["suffix"]
    body = _unpack(content, place, header)
    if suffix is None:
        texts = [_decode(body, place)]
    elif suffix in (".jsonl", ".ndjson"):
        texts = list(_json_lines(body, place, header["column"], header["whole"]))
    elif suffix == ".csv":
        texts = list(_csv(body, place, header["column"]))
    elif suffix in (".parquet", ARROW):
        read = _parquet if suffix == ".parquet" else _arrow
        texts = _column(lambda: read(body), place, header["column"], header["whole"])
    else:
        texts = [line for line in _decode(body, place).splitlines() if line.strip()]
    return answer({"texts": write_cells(texts)}, header), None


def _unpack(content: bytes, place: Path, header: Mapping[str, Any]) -> bytes:
    openers: dict[str, Callable[[io.BytesIO], Any]] = {".gz": gzip.open, ".xz": lzma.open}
    if not header["packing"]:
        return content
    parts, size = [], 0
    try:
        with openers[header["packing"]](io.BytesIO(content)) as stream:
            while block := stream.read(_BLOCK):
                size += len(block)
                if size > header["limit"]:
                    limit = files.text(header["limit"])
                    raise DataError(f"{place} unpacks to more than the {limit} of memory that a file of its size may take")
                parts.append(block)
    except DAMAGE as error:
        raise DataError(f"{place} cannot be unpacked ({error}); was its download or copy cut short?") from error
    return b"".join(parts)


def _decode(content: bytes, place: Path) -> str:
    try:
        return content.decode("utf-8-sig")  # with a byte order mark or without
    except UnicodeDecodeError as error:
        raise DataError(f"{place} is not UTF-8 at byte {error.start}; convert it (iconv -t utf-8)") from error


def _json_lines(content: bytes, place: Path, column: str, whole_numbers: bool) -> Iterator[str]:
    for number, line in enumerate(_decode(content, place).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}, line {number}: no JSON ({error}); expected one object a line") from error
        text = value.get(column) if isinstance(value, dict) else None
        if whole_numbers and _is_whole(text):
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

    return pyarrow.parquet.ParquetFile(io.BytesIO(content), pre_buffer=False).read(use_threads=False)


def _arrow_folder(place: Path, column: str, whole_numbers: bool) -> tuple[list[str], list[tuple[str, bytes]]]:
    files = sorted(place.glob(f"*{ARROW}"))
    if not files:
        raise DataError(f"{place} is a folder without .arrow files; expected one split as datasets' save_to_disk writes it")
    texts: list[str] = []
    contents = [(file.name, read_bytes(file, "texts")) for file in files]
    for name, content in contents:
        texts += _texts(content, place / name, {"suffix": ARROW, "column": column, "whole": whole_numbers})
    return texts, contents


def _arrow(content: bytes) -> Any:
    import pyarrow

    return pyarrow.ipc.open_stream(io.BytesIO(content)).read_all()


def _column(read: Callable[[], Any], place: Path, column: str, whole_numbers: bool) -> list[str]:
    try:
        table = read()
        names = list(table.column_names)
        values = table.column(column).to_pylist() if column in names else None
    except DAMAGE as error:
        raise DataError(f"{place} cannot be read: {error}") from error
    if values is None:
        raise DataError(f"{place} has no column '{column}'; it has: {', '.join(names)}; name one in data.column")
    if whole_numbers:
        values = [str(value) if _is_whole(value) else value for value in values]
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(f"{place}: {numbered(number)} holds {type(value).__name__} in '{column}'; expected text")
    texts: list[str] = values
    return texts


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
