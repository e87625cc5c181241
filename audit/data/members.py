"""The audited records: read, checked against each other, members first."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.data import Array, Records
from audit.core.errors import DataError
from audit.data import loaders
from audit.data.archives import only_keys, read_npz
from audit.data.source import array_sha256, as_whole, combined_sha256, finite_inputs, read_bytes

_FURTHER = ("exact", "group", "index", "unit")

Side = str | Path | Records | tuple[Any, Any] | Mapping[str, Any] | loaders.IndexSource | loaders.Loader
"""One side as a user gives it: an npz file with x and y, `Records`, `(x, y)` of arrays or tensors, a mapping with x, y and
maybe group, index, unit; or a `Dataset` or `DataLoader` of torch."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberEvidence:
    """Both sides, joined.

    Attributes:
        inputs: `(n, ...)`, members first, float32 or whole numbers as given; `included` `(n,)` bool.
        labels: `(n,)` or `(n, k)`: int64, float64 or text. What they mean
            follows from the model's outputs (`audit.experiment.external.label_reading`).
        original_labels: y as it was given, for a function that trains on it.
        rows: `(n,)` position before any record was dropped: names of records follow from it.
        index: `(n,)` position among the coins, or None.
        groups: `(n,)` text, or None.
        units: `(n,)` text, the user that each record belongs to, where one coin a user decided; or None.
        name: files read; `sha256` of them.
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


def gather(members: Side, nonmembers: Side) -> MemberEvidence:
    """Both sides, each checked on its own and against the other.

    Raises:
        DataError: a file is missing or malformed; a side is empty; NaN; labels that are no classes, or a single class;
            records of different shapes on the two sides.
    """
    sides, files = [], []
    for side, name in ((members, "members"), (nonmembers, "nonmembers")):
        arrays, location, content = _read(side, name)
        if content is not None:
            files.append((location, content))
        sides.append(_check_side(arrays, location))
    _refuse_unlike(sides[0]["x"], sides[1]["x"])
    if sides[0]["x"].shape[1:] != sides[1]["x"].shape[1:]:
        raise DataError(
            f"members have records of shape {sides[0]['x'].shape[1:]}, nonmembers of shape {sides[1]['x'].shape[1:]}; "
            "expected the same"
        )
    if sides[0]["y"].shape[1:] != sides[1]["y"].shape[1:]:
        raise DataError(f"members have y of shape {sides[0]['y'].shape}, nonmembers of shape {sides[1]['y'].shape}")
    for key in ("group", "index", "unit"):
        if (sides[0][key] is None) != (sides[1][key] is None):
            raise DataError(f"one of members and nonmembers has '{key}', the other has not; give it in both or in neither")
    merged_arrays: dict[str, Any] = {
        key: None if sides[0][key] is None else np.concatenate([side[key] for side in sides]) for key in sides[0]
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
    return MemberEvidence(
        inputs=merged_arrays["x"],
        labels=labels,
        original_labels=merged_arrays["y"],
        included=np.arange(sum(counts)) < counts[0],
        rows=np.arange(sum(counts)),
        index=merged_arrays["index"],
        groups=merged_arrays["group"],
        units=merged_arrays["unit"],
        name=", ".join(name for name, _ in files) if files else "arrays in memory",
        sha256=combined_sha256(files) if files else array_sha256(merged_arrays["x"], as_whole(labels)),
    )


def _refuse_unlike(members: Array, nonmembers: Array) -> None:
    """Raise `DataError` where one side is whole numbers and the other is not: they were scaled in different ways."""
    whole = [side.dtype.kind in "biu" for side in (members, nonmembers)]
    if whole[0] != whole[1]:
        ranges = [f"{side.dtype} ({float(side.min()):g} to {float(side.max()):g})" for side in (members, nonmembers)]
        raise DataError(
            f"members have x of type {ranges[0]}, nonmembers of type {ranges[1]}; expected the same type and scale on both "
            "sides, exactly as the model takes them"
        )


def _read(side: Side, name: str) -> tuple[dict[str, Array], str, bytes | None]:
    if isinstance(side, str | Path):
        place = Path(side)
        content = read_bytes(place, name)
        arrays = read_npz(content, place)
        only_keys(arrays, ("x", "y"), _FURTHER, place)
        return arrays, place.name, content
    if isinstance(side, Records):
        return {"x": side.inputs, "y": side.labels}, name, None
    if isinstance(side, Mapping):
        arrays = {key: loaders.array(value) for key, value in side.items()}
        only_keys(arrays, ("x", "y"), _FURTHER, Path(name))
        return arrays, name, None
    if isinstance(side, tuple) and len(side) == 2:
        return {"x": loaders.array(side[0]), "y": loaders.array(side[1])}, name, None
    if isinstance(side, loaders.Loader):
        return loaders.of_loader(side, name), name, None
    if loaders.is_indexed(side) and not isinstance(side, np.ndarray | list | tuple) and not hasattr(side, "numpy"):
        return loaders.of_dataset(side, name), name, None
    raise DataError(
        f"{name} are given as {type(side).__name__}; expected (x, y), a path of an npz file with x and y, a Dataset or a "
        "DataLoader"
    )


def _check_side(arrays: Mapping[str, Array], location: str) -> dict[str, Any]:
    inputs, labels = arrays["x"], arrays["y"]
    if inputs.ndim < 2 or inputs.dtype.kind not in "biuf":
        raise DataError(
            f"{location}: x has shape {inputs.shape} and type {inputs.dtype}; expected numbers, (n, ...). Records of any other "
            "form (frames with text, dictionaries, graphs) are audited by a loss: audit.check(loss_of=fn, members=..., "
            "nonmembers=...), where fn(batch) gives the loss of each record, (n,)"
        )
    if len(inputs) == 0:
        raise DataError(f"{location}: no record; expected at least one member and one nonmember")
    for key in ("y", "group", "index", "unit"):
        if arrays.get(key) is not None and len(arrays[key]) != len(inputs):
            raise DataError(f"{location}: {len(inputs)} records in x but {len(arrays[key])} in {key}; expected as many of each")
    index = arrays.get("index")
    if index is not None and (index.ndim != 1 or index.dtype.kind not in "iu"):
        raise DataError(f"{location}: index has shape {index.shape} and type {index.dtype}; expected one integer per record")
    return {
        "x": inputs if inputs.dtype.kind in "biu" else finite_inputs(inputs.astype(np.float32), f"{location}: x"),
        "y": _truths(labels, f"{location}: y"),
        "group": None if arrays.get("group") is None else np.asarray(arrays["group"]).astype(str),
        "unit": None if arrays.get("unit") is None else np.asarray(arrays["unit"]).astype(str),
        "index": index,
    }


def _truths(labels: Array, location: str) -> Array:
    """Return what a model is to answer: numbers or text, `(n,)`, or numbers `(n, k)`."""
    if labels.dtype.kind in "OUS" and labels.ndim == 1 and labels.size:
        return labels.astype(str)
    if labels.ndim not in (1, 2) or labels.dtype.kind not in "iufb" or not labels.size:
        raise DataError(
            f"{location} has shape {labels.shape} and type {labels.dtype}; expected one class or number a record, (n,), or "
            "several, (n, k)"
        )
    return finite_inputs(labels, location) if labels.dtype.kind == "f" else labels


def without_overlap(evidence: MemberEvidence, overlap: str, *, by_coins: bool) -> MemberEvidence:
    """The evidence with no record on both sides.

    With "drop": of a split, nonmembers that equal a member are left out, since they were trained on. Where coins decided,
    every record that occurs more than once is left out, whatever its coins: a choice that looked at them would bias the audit.

    Raises:
        DataError: a record is on both sides and `overlap` is "refuse", or dropping empties a side.
    """
    _, content, counts = np.unique(_hashes(evidence), return_inverse=True, return_counts=True)
    members = np.bincount(content, weights=evidence.included, minlength=len(counts))
    on_both_sides = (members > 0) & (members < counts)
    overlap_mask = on_both_sides[content] & ~evidence.included
    if not overlap_mask.any():
        return evidence
    if overlap == "refuse":
        first = int(np.flatnonzero(overlap_mask)[0])
        twin = int(np.flatnonzero((content == content[first]) & evidence.included)[0])
        side = int(evidence.included.sum())
        raise DataError(
            f"{int(overlap_mask.sum())} nonmembers are equal to members (nonmember {first - side} is member {twin}), so the "
            "model was trained on them; remove them, or leave them out by overlap 'drop' (--drop-overlap)"
        )
    mask = counts[content] == 1 if by_coins else ~overlap_mask
    if not (evidence.included & mask).any() or not (~evidence.included & mask).any():
        raise DataError("nothing is left on one side after dropping records that are on both; the files overlap as a whole")
    return _take(evidence, mask)


def _take(evidence: MemberEvidence, mask: Array) -> MemberEvidence:
    return MemberEvidence(
        inputs=evidence.inputs[mask],
        labels=evidence.labels[mask],
        original_labels=None if evidence.original_labels is None else evidence.original_labels[mask],
        included=evidence.included[mask],
        rows=evidence.rows[mask],
        index=None if evidence.index is None else evidence.index[mask],
        groups=None if evidence.groups is None else evidence.groups[mask],
        units=None if evidence.units is None else evidence.units[mask],
        name=evidence.name,
        sha256=evidence.sha256,
        omissions=int((~mask).sum()),
    )


def _hashes(evidence: MemberEvidence) -> Array:
    """One text per record, equal for equal inputs and labels; row by row, so that the inputs are not copied."""
    pairs = zip(evidence.inputs, evidence.labels, strict=True)
    zero = evidence.inputs.dtype.type(0)  # added, it turns -0.0 into 0.0
    return np.array(
        [
            hashlib.blake2b((row + zero).tobytes() + np.asarray(label).tobytes(), digest_size=16).hexdigest()
            for row, label in pairs
        ]
    )
