"""Outputs that were recorded elsewhere, so that a model of any framework can be audited: npz, CSV or Parquet."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.views import View
from audit.data.archives import read_npz
from audit.data.exchange import take_metadata
from audit.data.frames import read_table
from audit.data.source import class_labels, combined_sha256, finite_inputs, memberships, numbered, read_bytes

_FORMS = ("logits", "probabilities", "losses", "errors")
_FURTHER = ("labels", "member", "group", "unit", "x")
_COLUMN = re.compile(r"(logit|probability)s?_(\d+)")
_SINGULAR = {"loss": "losses", "label": "labels", "error": "errors"}
_WITHOUT_CLASSES = ("losses", "errors")
_SUM_TOLERANCE = 1e-3
_FEWEST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictions:
    """What a model said about each audited record. It answers for no other record, so it is no `Target`: it is read whole.

    Arrays of an npz file, or columns of a table: exactly one of `logits` `(n, classes)`, `probabilities`, `losses` `(n,)` and
    `errors` `(n,)`, predictions of a regression less the truth in any unit (columns `logit_0`, `logit_1`, ..., `probability_0`,
    ..., `loss`, `error`); `labels` (column `label`), which only losses and errors can do without; `member`, true for records
    that were trained on, in one `path`, or two files `members` and `nonmembers` without it; and optionally `group`, `unit` and,
    in npz, the inputs `x`; `metadata` of an npz file is that of `audit.data.exchange`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".npz", ".csv", ".gz", ".parquet")

    path: str | None = None
    members: str | None = None
    nonmembers: str | None = None
    view: View = field(init=False, repr=False)
    included: Array = field(init=False, repr=False)
    inputs: Array | None = field(init=False, repr=False)
    groups: Array | None = field(init=False, repr=False)
    units: Array | None = field(init=False, repr=False)
    sha256: str = field(init=False, repr=False)
    metadata: dict[str, Any] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        paths = [self.path] if self.path is not None else [self.members, self.nonmembers]
        if (self.path is None) == (self.members is None and self.nonmembers is None) or None in paths:
            raise ConfigError(
                "predictions: give one file with a 'member' column (--target), or two without it (--members and --nonmembers)"
            )
        read = [(Path(str(path)), read_bytes(Path(str(path)), "predictions")) for path in paths]
        # by its first bytes and not its name: an npz file is a zip archive
        raw = [read_npz(content, place) if content[:2] == b"PK" else _columns(content, place) for place, content in read]
        if self.path is not None:
            object.__setattr__(self, "metadata", take_metadata(raw[0], read[0][0]))
        parts = [_check_names(arrays, place) for arrays, (place, _) in zip(raw, read, strict=True)]
        if self.path is None:
            parts = [
                _with_member(arrays, place, i == 0) for i, (arrays, (place, _)) in enumerate(zip(parts, read, strict=True))
            ]
        names = " and ".join(place.name for place, _ in read)
        arrays = _join(parts, names)
        self._set(arrays, names)
        object.__setattr__(self, "sha256", combined_sha256([(place.name, content) for place, content in read]))

    def _set(self, arrays: dict[str, Array], names: str) -> None:
        form = _form(arrays, names)
        if "member" not in arrays:
            raise DataError(f"{names} lacks 'member'; expected true or false for each record, or two files, one for each side")
        values = finite_inputs(np.asarray(arrays[form], np.float64), f"{names}: {form}")
        sizes = {key: len(array) for key, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            raise DataError(f"{names}: arrays of unequal length ({sizes}); expected one entry per record in each")
        labels = None
        if form not in _WITHOUT_CLASSES:
            values = _matrix(values, form, names)
            if "labels" not in arrays:
                raise DataError(f"{names} has {form} but no labels; expected the true class of each record")
        if "labels" in arrays:
            if form in _WITHOUT_CLASSES and arrays["labels"].dtype.kind == "f" and (arrays["labels"] % 1 != 0).any():
                raise DataError(f"{names}: labels are not classes; for regression leave them out, losses and errors need none")
            classes = values.shape[1] if form not in _WITHOUT_CLASSES else None
            labels = class_labels(arrays["labels"], classes, f"{names}: labels")
        if form in _WITHOUT_CLASSES and values.ndim != 1:
            raise DataError(f"{names}: {form} have shape {values.shape}; expected one per record, (n,)")
        signals = {form: values[..., None] if form == "errors" else values} if form in _WITHOUT_CLASSES else {"logits": values}
        view = View(labels=labels, signals=signals)
        object.__setattr__(self, "view", view)
        object.__setattr__(self, "included", memberships(arrays["member"], f"{names}: member"))
        object.__setattr__(self, "inputs", arrays.get("x"))
        object.__setattr__(self, "groups", arrays["group"].astype(str) if "group" in arrays else None)
        object.__setattr__(self, "units", arrays["unit"].astype(str) if "unit" in arrays else None)


def _check_names(arrays: dict[str, Array], place: Path) -> dict[str, Array]:
    """Arrays by their npz names; `DataError` if some have no such name."""
    unknown = [key for key in arrays if key not in _FORMS + _FURTHER]
    if unknown:
        raise DataError(
            f"{place} holds {', '.join(unknown)}, which no file of recorded predictions has; expected one of "
            f"{', '.join(_FORMS)} (columns logit_0, probability_0, "
            f"loss, error) and {', '.join(_FURTHER)} (columns label, member, group, unit)"
        )
    scalars = [key for key, array in arrays.items() if np.ndim(array) == 0]
    if scalars:
        raise DataError(f"{place}: {', '.join(scalars)} is a single value; expected one entry for each record")
    return arrays


def _columns(content: bytes, place: Path) -> dict[str, Array]:
    frame = read_table(content, place)
    arrays: dict[str, Array] = {}
    columns_by_form: dict[str, dict[int, Array]] = {}
    for column in frame.columns:
        match = _COLUMN.fullmatch(str(column))
        if match:
            form = "logits" if match.group(1) == "logit" else "probabilities"
            columns_by_form.setdefault(form, {})[int(match.group(2))] = frame[column].to_numpy()
        else:
            arrays[_SINGULAR.get(str(column), str(column))] = frame[column].to_numpy()
    for form, columns in columns_by_form.items():
        if sorted(columns) != list(range(len(columns))):
            raise DataError(
                f"{place}: {form} columns are numbered {sorted(columns)}; expected 0 to {len(columns) - 1} without gaps"
            )
        arrays[form] = np.stack([columns[i] for i in range(len(columns))], axis=1)
    for key, array in arrays.items():
        if key in (*_FORMS, "labels") and array.dtype.kind not in "biuf":
            raise DataError(f"{place}: column(s) of {key} hold text; expected numbers")
    return arrays


def _with_member(arrays: dict[str, Array], place: Path, side: bool) -> dict[str, Array]:
    if "member" in arrays:
        raise DataError(f"{place} has its own 'member'; give it alone as --target, or leave that column out")
    size = len(next(iter(arrays.values()), ()))
    if size == 0:
        raise DataError(f"{place} holds no record; expected at least one on each side")
    return {**arrays, "member": np.full(size, side)}


def _join(parts: list[dict[str, Array]], names: str) -> dict[str, Array]:
    if len({frozenset(arrays) for arrays in parts}) > 1:
        raise DataError(f"{names} hold different arrays: {' and '.join(', '.join(sorted(arrays)) for arrays in parts)}")
    shapes = {key: {array[key].shape[1:] for array in parts} for key in parts[0]}
    for key, kinds in shapes.items():
        if len(kinds) > 1:
            raise DataError(f"{names}: '{key}' has entries of different shapes {sorted(kinds)}; expected the same in both")
    return {key: np.concatenate([arrays[key] for arrays in parts]) for key in parts[0]}


def _form(arrays: dict[str, Array], names: str) -> str:
    forms = [form for form in _FORMS if form in arrays]
    if len(forms) != 1:
        raise DataError(
            f"{names} holds {', '.join(sorted(arrays)) or 'nothing'}: {len(forms)} of {', '.join(_FORMS)}; expected exactly one"
        )
    if arrays[forms[0]].dtype.kind not in "biuf":
        raise DataError(f"{names}: {forms[0]} have type {arrays[forms[0]].dtype}; expected numbers")
    return forms[0]


def _matrix(values: Array, form: str, names: str) -> Array:
    if values.ndim != 2 or values.shape[1] < 2:
        raise DataError(f"{names}: {form} have shape {values.shape}; expected (n, classes) with at least two classes")
    if form == "logits":
        return values
    off = np.abs(values.sum(axis=1) - 1)
    if values.min() < 0 or values.max() > 1 or off.max() > _SUM_TOLERANCE:
        row = int(np.argmax(np.maximum(off, np.maximum(-values.min(axis=1), values.max(axis=1) - 1))))
        total = values[row].sum()
        raise DataError(
            f"{names}: probabilities of {numbered(row)} are not a distribution (sum {total:.6g}); expected a sum of 1"
        )
    return np.asarray(np.log(np.maximum(values, _FEWEST)))  # logarithms of probabilities are logits: softmax gives them back


PLUGIN = Predictions
