"""The audited records: read, checked against each other, members first."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.data import Array, Records
from audit.core.errors import DataError
from audit.data import loaders
from audit.data.archives import only_keys, read_npz
from audit.data.model_records import FURTHER, find_numbers, split_side
from audit.data.row_containers import RowContainer, concatenate, find_digests, read_numbers, read_rows
from audit.data.source import array_sha256, as_whole, combined_sha256, finite_inputs, numbered, read_bytes

_LARGEST = float(np.finfo(np.float32).max) / 1e4  # squares of columns are added up in float64

# One side as a user gives it: an npz file with x and y, `Records`, `(x, y)` of arrays or tensors, a mapping with x, y and
# maybe group, index, unit; a `Dataset` or `DataLoader` of torch, or of Hugging Face. x may be a frame, text, a tuple or a
# dictionary.
Side = str | Path | Records | tuple[Any, ...] | Mapping[str, Any] | loaders.IndexSource | loaders.Loader


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberEvidence:
    """Both sides, joined.

    Attributes:
        inputs: `(n, ...)`, members first, in the type that they were given in; `included` `(n,)` bool.
        labels: `(n,)` or `(n, k)`: int64, float64 or text, which mean what the model's outputs make of them; `original_labels`
            y as it was given, for a function that trains on it.
        rows: `(n,)` position before any record was dropped: names of records follow from it.
        index: `(n,)` position among the coins, or None; `groups` `(n,)` text, or None.
        units: `(n,)` text, the user that each record belongs to, if one coin a user decided; or None.
        name: files read; `sha256` of them.
        form: the records as they were given, if they are no array of numbers; `inputs` then holds their numbers `(n, d)`, text
            as codes, or `(n, 0)` if they have none.
        omissions: records left out because they were on both sides.
    """

    inputs: Array
    labels: Array
    included: Array
    rows: Array
    index: Array | None
    groups: Array | None
    name: str
    sha256: str
    omissions: int = 0
    units: Array | None = None
    original_labels: Array | None = None
    form: RowContainer | None = None

    @property
    def records(self) -> Array | RowContainer:
        return self.inputs if self.form is None else self.form


def gather(members: Side, nonmembers: Side) -> MemberEvidence:
    """Both sides, each checked on its own and against the other; `DataError` for what cannot be used."""
    sides, files = [], []
    for side, name in ((members, "members"), (nonmembers, "nonmembers")):
        arrays, location, content = _read(side, name)
        if content is not None:
            files.append((location, content))
        sides.append(_check_side(arrays, location))
    inputs, form = _join_inputs(sides[0]["x"], sides[1]["x"])
    if sides[0]["y"].shape[1:] != sides[1]["y"].shape[1:]:
        raise DataError(f"members have y of shape {sides[0]['y'].shape}, nonmembers of shape {sides[1]['y'].shape}")
    for key in ("group", "index", "unit"):
        if (sides[0][key] is None) != (sides[1][key] is None):
            raise DataError(f"one of members and nonmembers has '{key}', the other has not; give it in both or in neither")
    merged_arrays: dict[str, Any] = {
        key: None if sides[0][key] is None else np.concatenate([side[key] for side in sides]) for key in sides[0] if key != "x"
    }
    labels = merged_arrays["y"]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind in "biuf":
        labels = labels.astype(np.float64 if labels.dtype.kind == "f" else np.int64)
    present = np.unique(labels)
    if len(present) < 2 and labels.ndim == 1:
        raise DataError(f"all records have the label {present[0]}; expected at least two classes (is y the right array?)")
    counts = [len(side["y"]) for side in sides]
    sha256 = "" if files else array_sha256(inputs if form is None else find_digests(form), as_whole(labels))
    return MemberEvidence(
        inputs=inputs,
        form=form,
        labels=labels,
        original_labels=merged_arrays["y"],
        included=np.arange(sum(counts)) < counts[0],
        rows=np.arange(sum(counts)),
        index=merged_arrays["index"],
        groups=merged_arrays["group"],
        units=merged_arrays["unit"],
        name=", ".join(name for name, _ in files) if files else "arrays in memory",
        sha256=combined_sha256(files) if files else sha256,
    )


def _join_inputs(members: Any, nonmembers: Any) -> tuple[Array, RowContainer | None]:
    """Return both sides as numbers, and in their own form unless they are given as numbers."""
    if not isinstance(members, np.ndarray) or not isinstance(nonmembers, np.ndarray) or members.dtype.kind not in "biuf":
        full = concatenate(members, nonmembers, ("members", "nonmembers"))
        numbers, size = read_numbers(full), len(read_rows(full, "members and nonmembers"))
        inputs = np.empty((size, 0)) if numbers is None else np.clip(numbers, -_LARGEST, _LARGEST)
        return inputs.astype(np.float32), read_rows(full, "members and nonmembers")
    _refuse_unlike(members, nonmembers)
    if members.shape[1:] != nonmembers.shape[1:]:
        raise DataError(
            f"members have records of shape {members.shape[1:]}, nonmembers of shape {nonmembers.shape[1:]}; expected the same"
        )
    if members.dtype != nonmembers.dtype and members.dtype.kind == "f":  # rounded alike, so that equal records are found
        members, nonmembers = members.astype(np.float32), nonmembers.astype(np.float32)
    return np.concatenate([members, nonmembers]), None


def _refuse_unlike(members: Array, nonmembers: Array) -> None:
    """Raise `DataError` if one side is whole numbers and the other is not: they were scaled in different ways."""
    full = [side.dtype.kind in "biu" for side in (members, nonmembers)]
    if full[0] != full[1]:
        ranges = [f"{side.dtype} ({float(side.min()):g} to {float(side.max()):g})" for side in (members, nonmembers)]
        raise DataError(
            f"members have x of type {ranges[0]}, nonmembers of type {ranges[1]}; expected the same type and scale on both "
            "sides, exactly as the model takes them"
        )


def _read(side: Side, name: str) -> tuple[Mapping[str, Any], str, bytes | None]:
    if isinstance(side, str | Path):
        place = Path(side)
        content = read_bytes(place, name)
        arrays = read_npz(content, place)
        only_keys(arrays, ("x", "y"), FURTHER, place)
        return arrays, place.name, content
    if isinstance(side, Records):
        return {"x": side.inputs, "y": side.labels}, name, None
    return split_side(side, name), name, None


def _check_side(arrays: Mapping[str, Any], location: str) -> dict[str, Any]:
    if isinstance(arrays["x"], np.ndarray | list) and len(arrays["x"]) == 0:
        raise DataError(f"{location}: no record; expected at least one member and one nonmember")
    labels = read_truths(arrays["y"], f"{location}: y")
    inputs = _read_inputs(arrays["x"], len(labels), location)
    size = len(inputs) if isinstance(inputs, np.ndarray) else len(read_rows(inputs, f"{location}: x"))
    further = {key: None if arrays.get(key) is None else loaders.array(arrays[key]) for key in ("group", "index", "unit")}
    for key, values in {"y": labels, **further}.items():
        if values is not None and len(values) != size:
            raise DataError(
                f"{location}: {size} records in x but {len(values)} in {key}; expected as many of each"
                + _suggest_axis(inputs, len(values) if key == "y" else 0)
            )
    index = further["index"]
    if index is not None and (index.ndim != 1 or index.dtype.kind not in "iu"):
        raise DataError(f"{location}: index has shape {index.shape} and type {index.dtype}; expected one integer per record")
    texts = {key: None if (values := further[key]) is None else values.astype(str) for key in ("group", "unit")}
    return {"x": inputs, "y": labels, "index": index, **texts}


def _suggest_axis(inputs: Any, count: int) -> str:
    """Return what to write for sequences with records along the second axis."""
    if not isinstance(inputs, np.ndarray) or inputs.ndim < 2 or inputs.shape[1] != count:
        return ""
    return (
        "; the second axis of x has as many, as of sequences with time first: give x.swapaxes(0, 1) and, as model, "
        "lambda x: model(x.swapaxes(0, 1)), with tensors where the model takes those"
    )


def _read_inputs(x: Any, size: int, location: str) -> Any:
    """Return x as numbers `(n, ...)`, or in its own form: a frame, text, a dictionary, a tuple or list of records."""
    if isinstance(x, list) and len(x) != size and all(getattr(part, "shape", ())[:1] == (size,) for part in x):
        x = tuple(x)  # several inputs, as Keras takes them
    inputs = find_numbers(x)
    if inputs is None:
        return x
    if inputs.ndim < 2:
        raise DataError(
            f"{location}: x has shape {inputs.shape} and type {inputs.dtype}; expected numbers, (n, ...). If the model takes "
            "one number a record, give x in a tuple: ((x,), y)"
        )
    if inputs.dtype.kind == "f" and not np.isfinite(inputs).all() and np.isnan(inputs).any():
        try:
            finite_inputs(inputs, f"{location}: x")
        except DataError as error:
            raise DataError(f"{error} (a model that takes missing cells gets them in a DataFrame)") from None
    if inputs.dtype.kind == "f":
        finite_inputs(inputs.astype(np.float32), f"{location}: x")  # comparisons without the model square values
    return inputs


def read_truths(y: Any, location: str) -> Array:
    """Return what a model is to answer: numbers or text `(n,)`, numbers `(n, k)`, masks, images `(n, ...)`; or `DataError`."""
    if isinstance(y, Mapping | tuple) or (hasattr(y, "columns") and y.shape[1] == 0):
        parts = f" with {', '.join(map(repr, y))}" if isinstance(y, Mapping) else ""
        raise DataError(
            f"{location} is a {type(y).__name__}{parts}; expected one array. A model of several tasks is audited one at a "
            "time, y['task'] beside lambda x: model(x)['task'], or by its loss: "
            "audit.check(loss_of=fn, members=..., nonmembers=...)"
        )
    try:
        labels = loaders.array(y)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{location} holds records of several sizes; expected one array: pad them with -100, which is not predicted"
        ) from error
    if labels.dtype.kind == "O":
        _refuse_missing(labels, location)
    if labels.dtype.kind in "OUS":
        labels = as_whole(labels)
    if labels.dtype.kind in "US" and labels.ndim == 1 and labels.size:
        return labels.astype(str)
    if not 1 <= labels.ndim <= 5 or labels.dtype.kind not in "iufb" or not labels.size:
        raise DataError(
            f"{location} has shape {labels.shape} and type {labels.dtype}; expected one class or number a record, (n,), "
            "several, (n, k), or masks and images, (n, ...)"
        )
    return finite_inputs(labels, location) if labels.dtype.kind == "f" else labels


def _refuse_missing(labels: Array, location: str) -> None:
    """Raise `DataError` for None, NaN or pandas' NA among objects: as text they would be one more class."""
    values = labels.ravel().tolist()
    missing = [
        place
        for place, value in enumerate(values)
        if value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and np.isnan(value))
    ]
    if missing:
        raise DataError(
            f"{location} has {len(missing)} missing values, the first in {numbered(missing[0] * len(labels) // labels.size)}; "
            "remove or repair those records"
        )


def without_overlap(evidence: MemberEvidence, overlap: str, *, by_coins: bool) -> MemberEvidence:
    """The evidence with no record on both sides, or `DataError` if `overlap` is "refuse" or nothing is left of a side.

    With "drop": of a split, nonmembers that equal a member are left out, since they were trained on. If coins decided, every
    record that occurs more than once is left out, whatever its coins: a choice that looked at them would bias the audit.
    """
    hashes, advice = _hashes(evidence), "; remove them, or leave them out by overlap 'drop' (--drop-overlap)"
    duplicates, is_single = find_overlap(hashes, evidence.included, advice if overlap == "refuse" else "")
    if not duplicates.any():
        return evidence
    mask = is_single if by_coins else ~duplicates
    if not (evidence.included & mask).any() or not (~evidence.included & mask).any():
        raise DataError("nothing is left on one side after dropping records that are on both; the files overlap as a whole")
    names = ("inputs", "labels", "original_labels", "included", "rows", "index", "groups", "units")
    arrays = {name: value[mask] for name in names if (value := getattr(evidence, name)) is not None}
    form = None if evidence.form is None else evidence.form.select(np.flatnonzero(mask))
    return replace(evidence, **arrays, form=form, omissions=int((~mask).sum()))


def find_overlap(hashes: Array, included: Array, advice: str) -> tuple[Array, Array]:
    """Return which nonmembers equal a member by their hashes `(n,)`, and which records occur once, `(n,)` bool each.

    `DataError` if there is such a nonmember and `advice` says what to do about it; "" takes it.
    """
    _, content, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    members = np.bincount(content, weights=included, minlength=len(counts))
    duplicates = ((members > 0) & (members < counts))[content] & ~included
    if advice and duplicates.any():
        first = int(np.flatnonzero(duplicates)[0])
        twin = int(np.flatnonzero((content == content[first]) & included)[0])
        raise DataError(
            f"{int(duplicates.sum())} nonmembers are equal to members (nonmember {first - int(included.sum())} is member "
            f"{twin}), so the model was trained on them{advice}"
        )
    return duplicates, counts[content] == 1


def _hashes(evidence: MemberEvidence) -> Array:
    """One text per record, equal for equal inputs and labels; row by row, so that the inputs are not copied."""
    if evidence.form is not None:
        labels = [np.asarray(label).tobytes() for label in evidence.labels]
        contents = zip(find_digests(evidence.form).tolist(), labels, strict=True)
        return np.array([hashlib.blake2b(row + label, digest_size=16).hexdigest() for row, label in contents])
    zero = evidence.inputs.dtype.type(0)  # added, it turns -0.0 into 0.0
    pairs = zip(evidence.inputs, evidence.labels, strict=True)
    rows = ((row + zero).tobytes() + np.asarray(label).tobytes() for row, label in pairs)
    return np.array([hashlib.blake2b(row, digest_size=16).hexdigest() for row in rows])
