"""One side of an audit of a model, taken apart: what the model is asked with, in the user's own form, and y beside it."""

import numbers
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.data import loaders
from audit.data.archives import only_keys
from audit.data.row_containers import concatenate
from audit.data.source import numbered

TRUTHS = ("y", "label", "labels", "target", "targets")  # names that y has in a dictionary, of which one has to be there
_ASKED_TWICE = 10
FURTHER = ("exact", "group", "index", "unit")


def split_side(side: Any, name: str) -> dict[str, Any]:
    """Return `x` in its own form, `y`, and `group`, `index`, `unit` and `exact` if they are there; `DataError` without a y.

    `side` is `(x, y)`, in which x may be an array, a frame, a tuple or a dictionary; several inputs before y; a mapping with y
    under one of `TRUTHS`; a data set or a loader of such records; a data set of Hugging Face.
    """
    if isinstance(side, Mapping):
        return _split_mapping(side, name)
    if isinstance(side, tuple) and len(side) > 1:
        return {"x": side[0] if len(side) == 2 else side[:-1], "y": side[-1]}
    if isinstance(side, loaders.Loader):
        return split_side(_read_loader(side, name), name)
    if hasattr(side, "column_names") and hasattr(side, "with_format"):  # Hugging Face
        if not loaders.is_indexed(side):
            raise DataError(f"{name} are an {type(side).__name__}; expected datasets.Dataset.from_list(list({name}))")
        rows = (side if side.format["type"] in (None, "numpy", "torch") else side.with_format("numpy"))[list(range(len(side)))]
        return _split_mapping({key: _stack(list(rows[key])) for key in rows}, name)
    is_container = isinstance(side, np.ndarray | list | tuple | str) or hasattr(side, "numpy") or hasattr(side, "columns")
    if loaders.is_indexed(side) and not is_container:
        return split_side(_read_dataset(side, name), name)
    if hasattr(side, "columns"):
        is_frame, end = hasattr(side, "iloc"), ".to_pandas()" * hasattr(side, "to_pylist")
        raise DataError(
            f"{name} are a {type(side).__name__} alone, so which column is y is not known; expected "
            f'({name}.drop({"columns=" * is_frame}"target"){end}, {name}["target"]{end})'
        )
    if hasattr(side, "train_dataloader") and hasattr(side, "setup"):  # Lightning
        loader = "train_dataloader" if name == "members" else "val_dataloader"
        raise DataError(
            f"{name} are a {type(side).__name__}, with loaders of both sides; expected data.{loader}(), after data.setup()"
        )
    raise DataError(
        f"{name} are given as {type(side).__name__}; expected (x, y), a path of an npz file with x and y, a Dataset or a "
        f"DataLoader (of a generator of batches, its batches joined: (np.concatenate(xs), np.concatenate(ys)); of pairs in a "
        f"list or an IterableDataset: tuple(map(list, zip(*{name}))))"
    )


def find_numbers(x: Any) -> Array | None:
    """Return x as numbers, `(n, ...)`; None for a frame, a dictionary, a tuple, text, or records of several sizes."""
    if isinstance(x, Mapping | tuple) or any(hasattr(x, name) for name in ("iloc", "tocsr", "columns")):
        return None
    try:
        array = loaders.array(x)
    except (TypeError, ValueError):
        return None
    if array.dtype.kind == "O" and array.ndim > 1 and all(isinstance(value, numbers.Real) for value in array.flat):
        return array.astype(np.float64)
    return array if array.dtype.kind in "biuf" else None


def _split_mapping(side: Mapping[str, Any], name: str) -> dict[str, Any]:
    truths = [key for key in TRUTHS if key in side]
    if "x" in side or not truths:
        if "x" not in side and side:
            if all(hasattr(value, "with_format") for value in side.values()):
                raise DataError(
                    f"{name}: data sets by the names {', '.join(map(repr, side))}; give one: {name}[{next(iter(side))!r}]"
                )
            raise DataError(
                f"{name}: a dictionary with {', '.join(repr(key) for key in side)} and no y; expected it under one of "
                f"{', '.join(TRUTHS)}, or as " + '{"x": {...}, "y": labels}'
            )
        if "y" not in side and len(truths) == 1 and "x" in side:
            side = {("y" if key == truths[0] else key): value for key, value in side.items()}
        only_keys(dict(side), ("x", "y"), FURTHER, Path(name))
        return dict(side)
    if len(truths) > 1:
        raise DataError(
            f"{name}: a dictionary with {' and '.join(repr(key) for key in truths)}, so which of them is y is not known; "
            'expected {"x": {...}, "y": ...}'
        )
    further = {key: side[key] for key in FURTHER if key in side}
    inputs = {key: value for key, value in side.items() if key not in (*truths, *further)}
    if not inputs:
        raise DataError(f"{name}: a dictionary with '{truths[0]}' alone; expected the model's inputs beside it")
    return {"x": next(iter(inputs.values())) if len(inputs) == 1 else inputs, "y": side[truths[0]], **further}


def _read_loader(loader: loaders.Loader, name: str) -> Any:
    rows = loaders.read_loader(loader, name)
    if not rows:
        raise DataError(f"{name}: the loader has no record; expected at least one")
    starts = range(0, len(rows), loaders.BATCH)
    _refuse_changing(loader.dataset, rows, name)
    batches = [loader.collate_fn([loader.dataset[row] for row in rows[start : start + loaders.BATCH]]) for start in starts]
    _demand_pair(batches[0], name)
    parts = [_as_mutable(batch) for batch in batches]
    return _join_batches(parts, name)


def _join_batches(parts: Sequence[Any], name: str) -> Any:
    """Return batches as one, by halves, so that each row is copied a few times alone."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    halves = _join_batches(parts[:middle], name), _join_batches(parts[middle:], name)
    return concatenate(*halves, (f"{name}: a batch", "another batch"))


def _as_mutable(batch: Any) -> Any:
    """Return a batch with its parts as a tuple or a plain dictionary, as they are joined."""
    if isinstance(batch, Mapping):
        return {str(key): _as_mutable(value) for key, value in batch.items()}
    if isinstance(batch, list | tuple) and batch and all(_is_part(part) for part in batch):
        return tuple(_as_mutable(part) for part in batch)
    return batch


def _is_part(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple) or getattr(value, "shape", ()) != ()


def _read_dataset(dataset: Any, name: str) -> Any:
    records = [dataset[index] for index in range(len(dataset))]
    if not records:
        raise DataError(f"{name}: the data set is empty; expected at least one record")
    _demand_pair(records[0], name)
    _refuse_changing(dataset, range(len(dataset)), name)
    first = records[0]
    if not isinstance(first, Mapping):
        records = [tuple(record) for record in records]
    is_array = not isinstance(first, Mapping) and hasattr(first[0], "shape")
    shapes = sorted({tuple(record[0].shape) for record in records}) if is_array else []
    if len(shapes) > 1:
        raise DataError(f"{name}: records of shapes {shapes[0]} and {shapes[1]}; expected one, pad them or give arrays")
    return _stack(records)


def _refuse_changing(dataset: Any, rows: Sequence[int], name: str) -> None:
    """Raise `DataError` if a record of a data set is another one when it is asked for again, as random transforms make it."""
    for row in rows[:_ASKED_TWICE]:
        if not _are_alike(dataset[row], dataset[row]):
            raise DataError(
                f"{name}: {numbered(row)} is another one when the data set is asked again, as random augmentation makes it; "
                "give the data set with the transforms of evaluation, or what was drawn once: "
                "tuple(map(list, zip(*[dataset[i] for i in range(len(dataset))])))"
            )


def _are_alike(first: Any, second: Any) -> bool:
    """Return whether numbers of a record are those of another; what holds none counts as alike."""
    if isinstance(first, Mapping):
        return all(_are_alike(first[key], second[key]) for key in first if key in second)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(_are_alike, first, second))
    try:
        arrays = loaders.array(first), loaders.array(second)
    except (TypeError, ValueError):
        return True
    return any(array.dtype.kind not in "biuf" for array in arrays) or np.array_equal(*arrays, equal_nan=True)


def _demand_pair(record: Any, name: str) -> None:
    is_pair = isinstance(record, Mapping) or (isinstance(record, list | tuple) and len(record) > 1)
    if not is_pair:
        raise DataError(
            f"{name}: a record is a {type(record).__name__}; expected (x, y), several inputs before y, or a mapping with y "
            f"under one of {', '.join(TRUTHS)}"
        )


def _stack(records: list[Any]) -> Any:
    """Return records as columns: tensors as a tensor, numbers as an array, whatever has several sizes as a list."""
    first = records[0]
    if isinstance(first, Mapping):
        return {str(key): _stack([record[key] for record in records]) for key in first}
    if isinstance(first, tuple):
        return tuple(_stack([record[place] for record in records]) for place in range(len(first)))
    if hasattr(first, "detach"):
        is_regular = len({tuple(record.shape) for record in records}) == 1
        return first.new_tensor(np.stack([loaders.array(record) for record in records])) if is_regular else records
    try:
        array = np.stack([loaders.array(record) for record in records])
    except (TypeError, ValueError):
        return records
    return array if array.dtype.kind in "biufUS" else records
