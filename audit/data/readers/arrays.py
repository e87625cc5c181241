"""Data that comes as arrays: the sets inside scikit-learn, and npz files with x and y."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.source import (
    DAMAGED,
    PIXELS,
    UNSCALED,
    Part,
    Scaling,
    Source,
    array_sha256,
    choice,
    class_labels,
    combined_sha256,
    finite_inputs,
    locate,
    read_bytes,
    target_values,
)

# Upper limits of the ten cell measurements (mean, error, worst) of the Wisconsin breast cancer data, rounded up from the
# ranges in its published description; lower limits are 0. Constants: nothing is computed from the records at run time.
_MEAN_LIMITS = (30, 40, 200, 2600, 0.2, 0.4, 0.5, 0.25, 0.35, 0.1)
_ERROR_LIMITS = (3, 5, 25, 600, 0.035, 0.15, 0.4, 0.06, 0.08, 0.03)
_WORST_LIMITS = (40, 50, 260, 4500, 0.25, 1.1, 1.3, 0.3, 0.7, 0.25)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """1,797 handwritten digits `(1, 8, 8)` that come with scikit-learn, divided by 16."""

    def read(self) -> Source:
        """The whole set; no test part of its own."""
        from sklearn.datasets import load_digits

        bunch = load_digits()
        images, labels = np.asarray(bunch.images), np.asarray(bunch.target)
        return Source(
            origin="UCI optical recognition of handwritten digits (test part), embedded in scikit-learn; divided by 16",
            sha256=array_sha256(images, labels),
            classes=10,
            main=Part(inputs=images[:, None], labels=class_labels(labels, 10, "digits")),
            scaling=Scaling(offset=np.zeros(()), unit=np.array(16.0)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BreastCancer:
    """569 tumours with 30 measurements that come with scikit-learn, scaled to [-1, 1] by round public limits."""

    def read(self) -> Source:
        """The whole set; no test part of its own."""
        from sklearn.datasets import load_breast_cancer

        bunch = load_breast_cancer()
        inputs, labels = np.asarray(bunch.data), np.asarray(bunch.target)
        half = np.array(_MEAN_LIMITS + _ERROR_LIMITS + _WORST_LIMITS) / 2
        return Source(
            origin="UCI breast cancer Wisconsin (diagnostic), embedded in scikit-learn; scaled by round public limits",
            sha256=array_sha256(inputs, labels),
            classes=2,
            main=Part(inputs=inputs, labels=class_labels(labels, 2, "breast_cancer")),
            scaling=Scaling(offset=half, unit=half),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Npz:
    """npz files with arrays `x` and `y` (optionally `group`, one text or number a record; `exact` is ignored).

    Attributes:
        path: what train and pool are drawn from; test too where `test_path` is None.
        classes: number of classes; None takes the largest label plus one.
        task: "classification" or "regression".

    uint8 arrays of three or four axes are images, `(n, H, W)` or `(n, C, H, W)`, scaled to [-1, 1]; any other array is
    taken as it is.
    """

    path: str
    test_path: str | None = None
    root: str = "."
    classes: int | None = None
    task: str = "classification"

    def read(self) -> Source:
        """The part or both parts."""
        regression = choice(self.task, ("classification", "regression"), "data.task") == "regression"
        names = [self.path] if self.test_path is None else [self.path, self.test_path]
        read, parts, images = [], [], []
        for name in names:
            place = locate(self.root, name)
            content = read_bytes(place, "npz data")
            part = _records(read_npz(content, place), place, None if regression else self.classes, regression)
            read.append((place.name, content))
            parts.append(part)
            images.append(part.inputs.dtype == np.uint8 and part.inputs.ndim == 4)
        if len({(part.inputs.shape[1:], image) for part, image in zip(parts, images, strict=True)}) > 1:
            shapes = " and ".join(f"{part.inputs.dtype} {part.inputs.shape[1:]}" for part in parts)
            raise DataError(f"{' and '.join(names)} hold records of {shapes}; expected the same in both")
        top = 0 if regression else self.classes or 1 + max(int(part.labels.max()) for part in parts)
        how = "pixels scaled to [-1, 1] by public constants" if images[0] else "values as given"
        return Source(
            origin=f"npz {', '.join(name for name, _ in read)}; {how}",
            sha256=combined_sha256(read),
            classes=top,
            main=parts[0],
            test=parts[1] if len(parts) == 2 else None,
            scaling=PIXELS if images[0] else UNSCALED,
        )


def read_npz(content: bytes, place: Path) -> dict[str, Array]:
    """All arrays of an npz file, read without pickle.

    Raises:
        DataError: no npz file, a damaged one, or one that holds pickled objects.
    """
    if content.startswith(b"\x93NUMPY"):
        raise DataError(f"{place} is a single array; expected an npz file with named arrays (numpy.savez)")
    if not content.startswith(b"PK"):
        raise DataError(
            f"{place} is no npz file: it does not begin as a zip archive does. Expected a file written by numpy.savez"
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except DAMAGED as error:
        reason = (
            "it holds pickled Python objects, which could run code; store plain numbers or text"
            if "allow_pickle" in str(error)
            else f"{error}"
        )
        raise DataError(f"{place} cannot be read as npz: {reason}. Expected a file written by numpy.savez") from error


def only_keys(found: dict[str, Array], required: tuple[str, ...], optional: tuple[str, ...], place: Path) -> None:
    """Nothing, or `DataError` naming the arrays that are missing or not understood."""
    missing = [name for name in required if name not in found]
    extra = [name for name in found if name not in required + optional]
    if missing or extra:
        wrong = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"also has {', '.join(extra)}"] * bool(extra)
        raise DataError(
            f"{place} holds the arrays {', '.join(sorted(found)) or '(none)'}: it {' and '.join(wrong)}. Expected "
            f"{', '.join(required)} and optionally {', '.join(optional)}; rename them or leave them out"
        )


def _records(found: dict[str, Array], place: Path, classes: int | None, regression: bool) -> Part:
    only_keys(found, ("x", "y"), ("exact", "group"), place)
    inputs, labels, groups = found["x"], found["y"], found.get("group")
    if inputs.ndim < 2 or inputs.dtype.kind not in "biuf":
        raise DataError(f"{place}: x has shape {inputs.shape} and type {inputs.dtype}; expected numbers, (n, ...)")
    if len(inputs) == 0:
        raise DataError(f"{place}: x holds no record; expected at least one")
    if inputs.dtype == np.uint8 and inputs.ndim == 3:
        inputs = inputs[:, None]
    if inputs.ndim == 4 and inputs.shape[1] not in (1, 2, 3, 4) and inputs.shape[3] in (1, 3, 4):
        raise DataError(f"{place}: x has shape {inputs.shape}, channels last; expected (n, C, H, W): x.transpose(0, 3, 1, 2)")
    for name, other in (("y", labels), ("group", groups)):
        if other is not None and len(other) != len(inputs):
            raise DataError(f"{place}: {len(inputs)} records in x but {len(other)} in {name}; expected as many of each")
    finite_inputs(inputs, f"{place}: x")
    where = f"{place}: y"
    return Part(
        inputs=inputs,
        labels=target_values(labels, where) if regression else class_labels(labels, classes, where),
        groups=None if groups is None else groups.astype(str),
    )
