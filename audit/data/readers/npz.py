"""npz files with x and y."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit.core import checks
from audit.core.data import Array
from audit.core.errors import DataError
from audit.data import typed
from audit.data.archives import only_keys, read_npz
from audit.data.source import (
    NO_SCALING,
    PIXELS,
    WHOLE_NUMBERS,
    Part,
    Source,
    class_labels,
    combined_sha256,
    finite_inputs,
    locate,
    read_bytes,
    several_labels,
    target_values,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Npz:
    """npz files with arrays `x` and `y` (optionally `group`, one text or number a record; `exact` is ignored).

    Attributes:
        path: what train and pool are drawn from; test too where `test_path` is None.
        classes: number of classes; None takes the largest label plus one.
        task: what `y` holds: "classification" (a class a record), "regression" (numbers, `(n,)` or `(n, ...)`; also what a
            loss of one's own takes) or "multi_label" (0 or 1 for each label, `(n, labels)`).
        whole_numbers: `x` reaches the model as int64, for embeddings of categories and tokens.

    uint8 arrays of three or four axes are images, `(n, H, W)` or `(n, C, H, W)`, scaled to [-1, 1]; any other array is
    taken as it is, as real numbers.
    """

    path: str
    test_path: str | None = None
    root: str = "."
    classes: int | None = None
    task: str = "classification"
    whole_numbers: bool = False

    def __post_init__(self) -> None:
        typed.text(path=self.path, root=self.root, task=self.task)
        typed.optional_text(test_path=self.test_path)
        typed.class_count(self.classes)
        typed.flag(whole_numbers=self.whole_numbers)

    def read(self) -> Source:
        """The part or both parts."""
        checks.choice(self.task, "data.task", tuple(_LABELS))
        names = [self.path] if self.test_path is None else [self.path, self.test_path]
        read, parts, images = [], [], []
        for name in names:
            place = locate(self.root, name)
            content = read_bytes(place, "npz data")
            part = self._records(read_npz(content, place), place)
            read.append((place.name, content))
            parts.append(part)
            images.append(part.inputs.dtype == np.uint8 and part.inputs.ndim == 4 and not self.whole_numbers)
        if len({(part.inputs.shape[1:], image) for part, image in zip(parts, images, strict=True)}) > 1:
            shapes = " and ".join(f"{part.inputs.dtype} {part.inputs.shape[1:]}" for part in parts)
            raise DataError(f"{' and '.join(names)} hold records of {shapes}; expected the same in both")
        has_classes = self.task == "classification"
        top = (self.classes or 1 + max(int(part.labels.max()) for part in parts)) if has_classes else 0
        scale = "pixels scaled to [-1, 1] by public constants" if images[0] else "values as given"
        unscaled = WHOLE_NUMBERS if self.whole_numbers else NO_SCALING
        return Source(
            origin=f"npz {', '.join(name for name, _ in read)}; {scale}",
            sha256=combined_sha256(read),
            classes=top,
            main=parts[0],
            test=parts[1] if len(parts) == 2 else None,
            scaling=PIXELS if images[0] else unscaled,
        )

    def _records(self, arrays: dict[str, Array], place: Path) -> Part:
        inputs, groups = _inputs(arrays, place), arrays.get("group")
        location = f"{place}: x"
        if self.whole_numbers and inputs.dtype.kind not in "iub":
            raise DataError(f"{location} has type {inputs.dtype}; data.whole_numbers asks for integers")
        finite_inputs(inputs, location)
        labels = _LABELS[self.task](arrays["y"], self.classes, f"{place}: y")
        return Part(inputs=inputs, labels=labels, groups=None if groups is None else groups.astype(str))


def _inputs(arrays: dict[str, Array], place: Path) -> Array:
    """`x`, images with an axis of channels, after checks that shapes fit each other."""
    only_keys(arrays, ("x", "y"), ("exact", "group"), place)
    inputs = arrays["x"]
    if inputs.ndim < 2 or inputs.dtype.kind not in "biuf":
        raise DataError(f"{place}: x has shape {inputs.shape} and type {inputs.dtype}; expected numbers, (n, ...)")
    if len(inputs) == 0:
        raise DataError(f"{place}: x holds no record; expected at least one")
    if inputs.dtype == np.uint8 and inputs.ndim == 3:
        inputs = inputs[:, None]
    if inputs.ndim == 4 and inputs.shape[1] not in (1, 2, 3, 4) and inputs.shape[3] in (1, 3, 4):
        raise DataError(f"{place}: x has shape {inputs.shape}, channels last; expected (n, C, H, W): x.transpose(0, 3, 1, 2)")
    for name, column in (("y", arrays["y"]), ("group", arrays.get("group"))):
        if column is not None and len(column) != len(inputs):
            raise DataError(f"{place}: {len(inputs)} records in x but {len(column)} in {name}; expected as many of each")
    return inputs


_LABELS: Mapping[str, Callable[[Array, int | None, str], Array]] = {
    "classification": class_labels,
    "regression": lambda labels, _, location: target_values(labels, location),
    "multi_label": lambda labels, _, location: several_labels(labels, location),
}


PLUGIN = Npz
