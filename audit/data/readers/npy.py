"""Records in an npy file that is mapped, not loaded, and so may be larger than memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit.core import checks
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.files import file_sha256
from audit.core.mapped_files import MappedFile, map_array, read_rows
from audit.core.record_arrays import RawArray, SideBySide, scale_numbers
from audit.data import typed
from audit.data.array_records import LABELS, find_scaling, image_axes, make_source, refuse_large
from audit.data.source import DAMAGE, NO_SCALING, Part, Source, combined_digests, locate, no_file, numbered

_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Npy:
    """An npy file of records, mapped and never read as a whole, and one of their labels (`numpy.save`).

    Attributes:
        path: records `(n, ...)`; what train and pool are drawn from, and test too if `test_path` is None.
        labels: of the records in `path`.
        test_path: records of the test part.
        test_labels: of the records in `test_path`.
        classes: number of classes; None takes the largest label plus one.
        task: what labels are, as for kind `npz`: "classification", "regression" or "multi_label".
        whole_numbers: records reach the model as int64, for embeddings of categories and tokens.
        arrays: further files of the same records, with numbers placed behind those of `path`, for models of several inputs
            (`model.inputs` cuts them again), as kind `npz` does it.
        test_arrays: the same of the test part, as many.

    uint8 arrays of three or four axes are images, `(n, H, W)` or `(n, C, H, W)`, scaled to [-1, 1] a batch at a time; any other
    array is taken as it is, as real numbers. Worker processes share the pages of a mapping; the one that runs the audit reads a
    file of up to 256 MB at once and rows of a larger one. The file must not change meanwhile, and must be at the same path on
    every machine of a cluster.
    """

    path: str
    labels: str
    test_path: str | None = None
    test_labels: str | None = None
    root: str = "."
    classes: int | None = None
    task: str = "classification"
    whole_numbers: bool = False
    arrays: Sequence[str] = ()
    test_arrays: Sequence[str] = ()

    def __post_init__(self) -> None:
        typed.text(path=self.path, labels=self.labels, root=self.root, task=self.task)
        typed.optional_text(test_path=self.test_path, test_labels=self.test_labels)
        typed.class_count(self.classes)
        typed.flag(whole_numbers=self.whole_numbers)
        for key, path, names in (("arrays", self.path, self.arrays), ("test_arrays", self.test_path, self.test_arrays)):
            files = [path, *names] if isinstance(names, list | tuple) else [None, None]
            if not all(isinstance(name, str) and name for name in files[1:]) or len(set(files)) < len(files):
                raise ConfigError(
                    f"data.{key} is {names!r}; expected a list of different npy files, other than that of records"
                )
        if len(self.test_arrays) != (0 if self.test_path is None else len(self.arrays)):
            raise ConfigError(
                f"data.arrays names {len(self.arrays)} files and data.test_arrays {len(self.test_arrays)}; expected as many, "
                "and none without data.test_path"
            )

    def read(self) -> Source:
        checks.choice(self.task, "data.task", tuple(LABELS))
        if (self.test_path is None) != (self.test_labels is None):
            raise DataError("data.test_path and data.test_labels name records and their labels: give both, or neither")
        pairs = [(self.path, self.labels, *self.arrays)]
        if self.test_path is not None and self.test_labels is not None:
            pairs.append((self.test_path, self.test_labels, *self.test_arrays))
        parts, read = [], []
        for pair in pairs:
            places = [locate(self.root, name) for name in pair]
            part = self._part(*places[:2])
            if len(places) == 2:
                files = [MappedFile.at(places[0], part.inputs.shape)]
                part = replace(part, inputs=_rows(files[0]), file=files[0])
            else:
                files = self._same_records([places[0], *places[2:]], len(part))
                part = replace(part, inputs=self._side_by_side(files))
            parts.append(part)
            digests = [files[0].sha256, file_sha256(places[1]), *(file.sha256 for file in files[1:])]
            read += [(place.name, digest) for place, digest in zip(places, digests, strict=True)]
        names, is_whole = [pair[0] for pair in pairs], self.whole_numbers and not self.arrays
        rows = zip(parts, names, strict=True)
        scalings = [find_scaling(part.inputs, name, whole_numbers=is_whole) for part, name in rows]
        classes = (self.classes or None) if self.task == "classification" else 0
        return make_source(f"npy {', '.join(names)}", names, combined_digests(read), parts, scalings, classes=classes)

    def _part(self, place: Path, labels_place: Path) -> Part:
        inputs, column = image_axes(_open(place), str(place)), np.array(_open(labels_place))
        if column.ndim == 0 or len(column) != len(inputs):
            raise DataError(
                f"{len(inputs)} records in {place} but labels of shape {column.shape} in {labels_place}; expected one "
                "label for each record"
            )
        return Part(inputs=inputs, labels=LABELS[self.task](column, self.classes, str(labels_place)))

    def _same_records(self, places: Sequence[Path], count: int) -> list[MappedFile]:
        """Files of the same records, `(count, numbers of one)` each, which the row can hold."""
        arrays = {place: _open(place) for place in places}
        if len(arrays) < len(places):
            raise DataError(f"data.path and data.arrays name one file twice: {', '.join(map(str, places))}; name it once")
        are_whole = all(array.dtype.kind in "iub" for array in arrays.values())
        for place, array in arrays.items():
            if array.ndim == 0 or len(array) != count or array.dtype.kind not in "biuf":
                raise DataError(f"{place} holds {array.dtype} {array.shape}; expected numbers, ({count}, ...), a row a label")
            if self.whole_numbers and array.dtype.kind == "f":
                raise DataError(f"{place} has type {array.dtype}; data.whole_numbers asks for integers")
            # beside real numbers it becomes float32, which large integers do not survive
            if array.dtype.kind != "f" and not are_whole:
                refuse_large(array, str(place))
        return [MappedFile.at(place, (count, int(np.prod(array.shape[1:])))) for place, array in arrays.items()]

    def _side_by_side(self, files: Sequence[MappedFile]) -> Any:
        scale = None if self.whole_numbers else (NO_SCALING.offset, NO_SCALING.unit)
        rows = [_rows(file) for file in files]
        return SideBySide([RawArray(raw, np.arange(len(raw)), scale, file) for raw, file in zip(rows, files, strict=True)])


def _open(place: Path) -> Array:
    """The array of an npy file, mapped."""
    try:
        if not place.is_file():
            raise no_file(place, "npy data")
        return map_array(place)
    except DataError:
        raise
    except DAMAGE as error:
        raise DataError(
            f"{place} cannot be read as npy: {error}. Expected a file written by numpy.save, of plain numbers"
        ) from error


def _rows(file: MappedFile) -> Any:
    """Return the records of a file, or `DataError` with the first value that is not finite; reads some records at a time."""
    inputs = read_rows(Path(file.path), file.shape)
    if inputs.dtype.kind != "f":
        return inputs
    for start in range(0, len(inputs), _ROWS):
        part = scale_numbers(inputs[start : start + _ROWS], (NO_SCALING.offset, NO_SCALING.unit))
        bad = ~np.isfinite(part)
        if bad.any():
            row = start + int(np.argwhere(bad)[0][0])
            raise DataError(
                f"{file.path} has values that are NaN, infinite or too large for float32, the first in {numbered(row)}; "
                "remove or repair those records"
            )
    return inputs


PLUGIN = Npy
