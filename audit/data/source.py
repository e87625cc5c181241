"""What a data reader hands over before the split: raw parts, how they are scaled, the hash of what was read."""

from __future__ import annotations

import decimal
import hashlib
import lzma
import numbers
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit.core import files
from audit.core.data import Array, Vocabulary
from audit.core.errors import ConfigError, DataError
from audit.core.events import Unit
from audit.core.mapped_files import MappedFile
from audit.core.record_arrays import RawArray, RecordArray, scale_numbers

# what parsers of other libraries raise on damaged files: seen by flipping bytes, not only as documented
DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    EOFError,
    OSError,
    RuntimeError,
    AssertionError,
    OverflowError,
    MemoryError,
    SyntaxError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tokenize.TokenError,
)
STANDARDISATION = "standardised with the mean and standard deviation of the train split"
VOCABULARY = "categories taken from the files"
# what no accountant covers, if the words are in a source's origin, and how reports say it
UNACCOUNTED = {
    STANDARDISATION: "inputs standardised with the mean and standard deviation of the train split",
    VOCABULARY: "inputs categories taken from the files",
}
_COPY_BYTES = 2**28
_NUMBERS = (numbers.Real, decimal.Decimal, np.bool_)  # in an array of objects
_MOST_CLASSES = 2**31  # where the labels themselves decide: larger ones are no classes, and could wrap around as int64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """Records as they were read: `inputs` `(n, ...)` in their own type, `labels` `(n,)`, `groups` `(n,)` text or None.

    `owners` `(n,)` text names the client that each record belongs to, if the source says so. `file` is the one that `inputs` is
    mapped from, None if it is in memory. `inputs` that are a `RecordArray` are scaled already.
    """

    inputs: Array
    labels: Array
    groups: Array | None = None
    owners: Array | None = None
    file: MappedFile | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaling:
    """`(value - offset) / unit`, broadcast over a record.

    Attributes:
        standardised_columns: feature columns with the mean and standard deviation as offset and unit of the
            train split. Empty means that all constants are public.
        whole: records are whole numbers (categories, tokens) and stay so.
    """

    offset: Array
    unit: Array
    standardised_columns: tuple[int, ...] = ()
    whole: bool = False

    def fit(self, train: Array) -> Scaling:
        """The scaling, with statistics of `train` `(n, features)` if it needs any; `DataError` if then there is no record."""
        if not self.standardised_columns:
            return self
        if len(train) == 0:
            raise DataError(
                f"{len(self.standardised_columns)} numeric columns are to be standardised, but data.train is 0; "
                "declare their public limits in data.ranges, or take some train records"
            )
        columns = list(self.standardised_columns)
        offset, unit = self.offset.copy(), self.unit.copy()
        with np.errstate(over="ignore", invalid="ignore"):  # `apply` refuses what becomes of an overflow
            std = train[:, columns].std(axis=0, dtype=np.float64)
            offset[columns] = train[:, columns].mean(axis=0, dtype=np.float64)
        unit[columns] = np.where(std > 0, std, 1.0)
        return replace(self, offset=offset, unit=unit)

    def apply(self, inputs: Array) -> Array:
        """The scaled records, float32, or int64 of whole ones; `DataError` if a value is too large for float32."""
        if self.whole:
            return inputs.astype(np.int64)
        out = np.empty(inputs.shape, np.float32)
        for start in range(0, len(inputs), 4096):  # so that no float64 copy of all is made
            rows = slice(start, start + 4096)
            out[rows] = scale_numbers(inputs[rows], (self.offset, self.unit))
        return finite_inputs(out, "the data, as float32,")

    def rows(self, part: Part, index: Array) -> Any:
        """The scaled records of `part` at `index`: an array, or rows that are scaled when they are asked for.

        The latter if they are mapped from a file, or bytes that would take over 256 MB as float32. Errors as of `apply`.
        """
        if isinstance(part.inputs, RecordArray):
            return part.inputs.take_rows(index)
        size = len(index) * int(np.prod(part.inputs.shape[1:]))
        if part.file is None and (self.whole or part.inputs.dtype != np.uint8 or 4 * size <= _COPY_BYTES):
            return self.apply(part.inputs[index])
        return RawArray(part.inputs, index, None if self.whole else (self.offset, self.unit), part.file)


NO_SCALING = Scaling(offset=np.zeros(()), unit=np.ones(()))
WHOLE_NUMBERS = Scaling(offset=np.zeros(()), unit=np.ones(()), whole=True)
PIXELS = Scaling(offset=np.array(127.5), unit=np.array(127.5))  # uint8 images to [-1, 1]: divided by 255, then centred


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """All that a reader knows.

    Attributes:
        main: what train and pool (and test, if `test`, an own part, is None) are drawn from.
        classes: number of classes, 0 for regression.
        sha256: of the bytes that were read, hex.
        vocabulary: of texts; None for other records.
        columns: of a table, the features `[first, last)` that each column became.
        unit: of privacy that a record is.
    """

    origin: str
    sha256: str
    classes: int
    main: Part
    scaling: Scaling
    test: Part | None = None
    vocabulary: Vocabulary | None = None
    columns: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unit: Unit = "example"


def no_file(path: Path, purpose: str) -> DataError:
    return DataError(
        f"{purpose}: no file {path}; nothing is ever downloaded, so put the file there or correct the path that you gave"
    )


def read_bytes(path: Path, purpose: str) -> bytes:
    """The whole file, or `DataError` saying what was looked for."""
    try:
        content = files.read(path)
    except FileNotFoundError as error:
        raise no_file(path, purpose) from error
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{purpose}: cannot read {str(path)!r} ({reason}); expected a readable file") from error
    if not content:
        raise DataError(f"{purpose}: {path} is empty; expected data (was its download or copy cut short?)")
    return content


def numbered(index: int, unit: str = "record") -> str:
    """Return how messages name a record of a file: as people count, and saying so.

    >>> numbered(0), numbered(10, "row")
    ('record 1 (counted from 1)', 'row 11 (counted from 1, without a header line)')
    """
    return f"{unit} {index + 1} (counted from 1{', without a header line' if unit == 'row' else ''})"


def combined_sha256(files: list[tuple[str, bytes]]) -> str:
    """Hash of what was read: of one file its own sha256, of several that of `sha256sum` output over their names."""
    return combined_digests([(name, hashlib.sha256(content).hexdigest()) for name, content in files])


def combined_digests(digests: Sequence[tuple[str, str]]) -> str:
    """The same of names of files and their sha256."""
    if len(digests) == 1:
        return digests[0][1]
    return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in digests).encode()).hexdigest()


def array_sha256(*arrays: Array) -> str:
    """Hash over type, shape and values of arrays that came from no file."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def finite_inputs(inputs: Array, location: str) -> Array:
    """`inputs` itself, or `DataError` naming how many values are not finite and the first record that has one."""
    if inputs.dtype.kind == "f":
        bad = ~np.isfinite(inputs)
        if bad.any():
            row = int(np.argwhere(bad)[0][0])
            raise DataError(
                f"{location} has {int(bad.sum())} values that are NaN or infinite, the first in {numbered(row)}; "
                "remove or repair those records"
            )
    return inputs


def as_whole(labels: Array) -> Array:
    """Return whole numbers of any type as int64, other numbers as float64, and text as text."""
    labels = np.asarray(labels)
    if labels.dtype.kind == "O" and all(isinstance(label, _NUMBERS) for label in labels.flat):
        labels = labels.astype(np.float64)
    if labels.dtype.kind == "O":
        labels = np.array([str(label) for label in labels.ravel()]).reshape(labels.shape)
    if labels.dtype.kind in "biu":
        return labels.astype(np.int64)
    if labels.dtype.kind != "f":
        return labels
    is_whole = np.isfinite(labels).all() and (labels % 1 == 0).all() and np.abs(labels).max(initial=0) < 2**53
    return labels.astype(np.int64 if is_whole else np.float64)


def class_labels(labels: Array, classes: int | None, location: str) -> Array:
    """`labels` as int64 in `0 .. classes-1` (None: any), or `DataError` naming the first that is not."""
    if labels.ndim != 1:
        raise DataError(f"{location} has shape {labels.shape}; expected one label per record, (n,)")
    if labels.dtype.kind not in "iufb":
        raise DataError(f"{location} has type {labels.dtype}; expected integer class labels 0, 1, 2, ...")
    bad = ~np.isfinite(labels) if labels.dtype.kind == "f" else np.zeros(len(labels), bool)
    if not bad.any():
        bad = labels != np.floor(labels) if labels.dtype.kind == "f" else bad
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{location}: label {labels[first]} of {numbered(first)} is not an integer; expected classes 0, 1, 2, ... "
            "(for a continuous target set 'task: regression')"
        )
    top = _MOST_CLASSES if classes is None else classes
    outside = (labels < 0) | (labels >= top)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        range_text = f"in 0 .. {top - 1}"
        raise DataError(
            f"{location}: label {labels[first]} of {numbered(first)} is out of range; expected classes {range_text}"
        )
    return labels.astype(np.int64)


def target_values(labels: Array, location: str) -> Array:
    """Return regression targets as finite float64 `(n,)`, or `(n, ...)` for several numbers a record; else `DataError`."""
    if labels.ndim < 1 or labels.dtype.kind not in "iufb":
        raise DataError(f"{location} has shape {labels.shape} and type {labels.dtype}; expected numbers, (n,) or (n, ...)")
    return finite_inputs(labels.astype(np.float64), location)


def several_labels(labels: Array, location: str) -> Array:
    """Yes or no for each of several labels, bool `(n, labels)`, or `DataError` naming what is neither 0 nor 1."""
    if labels.ndim != 2 or labels.shape[1] < 1 or labels.dtype.kind not in "iufb":
        raise DataError(
            f"{location} has shape {labels.shape} and type {labels.dtype}; expected 0 or 1 for each label, (n, labels)"
        )
    outside = ~np.isin(labels, (0, 1))
    if outside.any():
        row, column = (int(number) for number in np.argwhere(outside)[0])
        raise DataError(f"{location}: label {column} of {numbered(row)} is {labels[row, column]}; expected 0 or 1")
    return labels.astype(bool)


def locate(root: str, path: str) -> Path:
    """Return the place that `root` and `path` name (of an absolute `path`, that alone); `ConfigError` if one is no text."""
    for key, value in (("root", root), ("path", path)):
        if not isinstance(value, str):
            raise ConfigError(f"data.{key} is {value!r}; expected text, a path")
    return Path(root).expanduser() / Path(path).expanduser()


def memberships(column: Array, location: str) -> Array:
    """`column` as `(n,)` bool, or `DataError` if it is not made of two truth values with both sides present."""
    flags = np.asarray(column)
    if flags.ndim != 1 or flags.dtype.kind not in "biuf" or not np.isin(flags, (0, 1)).all():
        examples = ", ".join(str(value) for value in np.unique(flags.astype(str))[:4])
        raise DataError(
            f"{location} holds {examples} with shape {flags.shape}; expected true or false (1 or 0) for each record"
        )
    flags = flags.astype(bool)
    if flags.all() or not flags.any():
        side = "members" if flags.all() else "nonmembers"
        raise DataError(f"{location} marks {side} only ({len(flags)} records); expected both members and nonmembers")
    return flags
