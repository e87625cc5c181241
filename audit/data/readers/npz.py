"""npz files with x and y."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.core import checks
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.data import typed
from audit.data.archives import only_keys, read_npz
from audit.data.array_records import LABELS, find_scaling, image_axes, make_source, side_by_side
from audit.data.source import Part, Source, combined_sha256, finite_inputs, locate, read_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Npz:
    """npz files with arrays `x` and `y` (optionally `group`, one text or number a record; `exact` is ignored).

    Attributes:
        path: what train and pool are drawn from; test too if `test_path` is None.
        classes: number of classes; None takes the largest label plus one.
        task: what `y` holds: "classification" (a class a record), "regression" (numbers, `(n,)` or `(n, ...)`; also what a
            loss of your own takes) or "multi_label" (0 or 1 for each label, `(n, labels)`).
        whole_numbers: `x` reaches the model as int64, for embeddings of categories and tokens.
        arrays: in place of `x`, the names of arrays that are side by side in each record, for models of several inputs
            (`model.inputs` cuts them again). Whole numbers beside others become real numbers, which hold them up to 2^24.

    uint8 arrays of three or four axes are images, `(n, H, W)` or `(n, C, H, W)`, scaled to [-1, 1]; any other array is
    taken as it is, as real numbers.
    """

    path: str
    test_path: str | None = None
    root: str = "."
    classes: int | None = None
    task: str = "classification"
    whole_numbers: bool = False
    arrays: Sequence[str] = ()

    def __post_init__(self) -> None:
        typed.text(path=self.path, root=self.root, task=self.task)
        typed.optional_text(test_path=self.test_path)
        typed.class_count(self.classes)
        typed.flag(whole_numbers=self.whole_numbers)
        names = list(self.arrays) if isinstance(self.arrays, list | tuple) else [None]
        is_free = all(isinstance(name, str) and name not in ("y", "group", "exact") for name in names)
        if not is_free or len(set(names)) < len(names):
            raise ConfigError(
                f"data.arrays is {self.arrays!r}; expected different names of arrays, other than y, group and exact"
            )

    def read(self) -> Source:
        checks.choice(self.task, "data.task", tuple(LABELS))
        names = [self.path] if self.test_path is None else [self.path, self.test_path]
        read, parts, scalings = [], [], []
        for name in names:
            place = locate(self.root, name)
            content = read_bytes(place, "npz data")
            part = self._records(read_npz(content, place), place)
            read.append((place.name, content))
            parts.append(part)
            scalings.append(find_scaling(part.inputs, f"{place}: x", whole_numbers=self.whole_numbers))
        origin = f"npz {', '.join(name for name, _ in read)}"
        classes = (self.classes or None) if self.task == "classification" else 0
        return make_source(origin, names, combined_sha256(read), parts, scalings, classes=classes)

    def _records(self, arrays: dict[str, Array], place: Path) -> Part:
        if "x" not in arrays and "y" in arrays and not self.arrays:
            further = [name for name in arrays if name not in ("y", "group", "exact")]
            raise DataError(
                f"{place} lacks the array x and holds {', '.join(further) or 'no other'}; store records as x, or name what "
                "stands side by side in each record (data.arrays), which model.inputs hands to a model of several inputs"
            )
        if self.arrays:
            only_keys(arrays, (*self.arrays, "y"), ("exact", "group"), place)
            pieces = {name: arrays.pop(name) for name in self.arrays}
            arrays["x"] = side_by_side(pieces, place)
        inputs, groups = _inputs(arrays, place), arrays.get("group")
        finite_inputs(inputs, f"{place}: x")
        labels = LABELS[self.task](arrays["y"], self.classes, f"{place}: y")
        return Part(inputs=inputs, labels=labels, groups=None if groups is None else groups.astype(str))


def _inputs(arrays: dict[str, Array], place: Path) -> Array:
    only_keys(arrays, ("x", "y"), ("exact", "group"), place)
    inputs = image_axes(arrays["x"], f"{place}: x")
    for name, column in (("y", arrays["y"]), ("group", arrays.get("group"))):
        if column is not None and len(column) != len(inputs):
            raise DataError(f"{place}: {len(inputs)} records in x but {len(column)} in {name}; expected as many of each")
    return inputs


PLUGIN = Npz
