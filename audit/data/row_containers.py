"""Records in whatever container a user has: how many there are, and any of them as a batch of the same form."""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import itertools
import numbers
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.data import loaders
from audit.data.archives import read_npz
from audit.data.source import read_bytes

FORMS = (
    "an array or tensor (n, ...), a tuple or dictionary of these, a DataFrame, a list of records, a data set, a DataLoader or "
    "the path of an npz"
)
_BESIDE = ("group", "index", "unit")
_MOST_PAIRS = 6
_NUMBER, _DATE = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?", re.I), re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowContainer:
    """Records by position.

    Attributes:
        take: `take(rows)` gives those at `rows` `(k,)` as one batch: arrays of `k` rows, a frame, a list of `k` records.
        beside: `group`, `index` and `unit` of the records, `(n,)` each, if a mapping has them.
    """

    size: int
    take: Callable[[Array], Any]
    beside: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.size

    def select(self, places: Array) -> RowContainer:
        """Return the records at `places` `(m,)`, in that order."""
        take = self.take
        return RowContainer(size=len(places), take=lambda rows: take(places[rows]))


def read_rows(side: Any, name: str) -> RowContainer:
    """Return the records of one side, which messages call by `name`, or `DataError` if it has none with fixed places."""
    if isinstance(side, str | Path):
        side = dict(read_npz(read_bytes(Path(side), name), Path(side)))
    if hasattr(side, "batch_dims"):
        raise DataError(
            f"{name} are a {type(side).__name__}; expected a dictionary of tensors, dict(x.items()), and as model, "
            "unless it takes one: lambda batch: model(TensorDict(batch, batch_size=[len(y)]))['logits']"
        )
    rows = _read(side, name)
    if not rows.size:
        raise DataError(f"{name}: no record; expected at least one")
    return rows


def _read(side: Any, name: str) -> RowContainer:
    if isinstance(side, Mapping):
        return _columns(side, name)
    if isinstance(side, tuple) and side and all(_has_rows(part) for part in side):
        return _parts(side, name)
    if isinstance(side, loaders.Loader):
        loader = side
        places = loaders.read_loader(loader, name)
        return RowContainer(
            size=len(places), take=lambda rows: loader.collate_fn([loader.dataset[places[row]] for row in rows.tolist()])
        )
    if _has_rows(side):
        return RowContainer(size=_count(side), take=_taker(side))
    raise DataError(
        f"{name} are given as {type(side).__name__}, of which records cannot be asked for by their place; expected {FORMS} "
        f"(of a generator or an IterableDataset: {name}=list({name}); of an Arrow table: its to_pandas(); of a lazy frame: its "
        "collect())"
    )


def _columns(side: Mapping[str, Any], name: str) -> RowContainer:
    if not side:
        raise DataError(f"{name}: an empty dictionary; expected arrays of n rows by their names")
    strange = [key for key, value in side.items() if not _has_rows(value)]
    if strange:
        raise DataError(
            f"{name}: '{strange[0]}' is a {type(side[strange[0]]).__name__}; expected n rows in each entry of the dictionary "
            "(one level of names alone, as {'first': a, 'second': b})"
        )
    sizes = {key: _count(value) for key, value in side.items()}
    _demand_one_size(sizes, name)
    takers = {key: _taker(value) for key, value in side.items()}
    return RowContainer(
        size=next(iter(sizes.values())),
        take=lambda rows: {key: take(rows) for key, take in takers.items()},
        beside={key: loaders.array(side[key]) for key in _BESIDE if key in side},
    )


def _parts(side: tuple[Any, ...], name: str) -> RowContainer:
    sizes = {f"part {place}": _count(part) for place, part in enumerate(side, start=1)}
    _demand_one_size(sizes, name)
    takers = [_taker(part) for part in side]
    return RowContainer(size=sizes["part 1"], take=lambda rows: tuple(take(rows) for take in takers))


def _demand_one_size(sizes: Mapping[str, int], name: str) -> None:
    if len(set(sizes.values())) > 1:
        counts = ", ".join(f"{size} in {key}" for key, size in sizes.items())
        raise DataError(
            f"{name}: {counts}; expected a row of each for every record (records of several sizes: a list with one entry for "
            "each)"
        )


def _has_rows(value: Any) -> bool:
    if isinstance(value, str | bytes | Mapping) or hasattr(value, "to_pylist"):
        return False
    if hasattr(value, "iloc") or hasattr(value, "tocsr"):
        return True
    return loaders.is_indexed(value) and getattr(value, "shape", (1,)) != ()


def _count(value: Any) -> int:
    return int(value.shape[0]) if hasattr(value, "shape") else len(value)


def _taker(value: Any) -> Callable[[Array], Any]:
    """Return what gives rows of a container in its own form; of a list or a data set of single records a list."""
    if hasattr(value, "iloc"):
        return lambda rows: value.iloc[rows]
    if hasattr(value, "tocsr"):
        sparse = value.tocsr()
        return lambda rows: sparse[rows]
    if hasattr(value, "column_names") or hasattr(value, "get_column"):  # Hugging Face, polars: rows by a list of places
        return lambda rows: value[rows.tolist()]
    if hasattr(value, "shape"):
        return lambda rows: value[rows]
    return lambda rows: [value[row] for row in rows.tolist()]


def read_numbers(batch: Any) -> Array | None:
    """Return the numbers of a batch as columns `(k, d)`, for comparisons without a model; None if it holds others.

    Times become numbers in their order, and so does text that writes a number or a date; other text becomes a code of each
    text, alike on both sides.
    """
    if isinstance(batch, Mapping | tuple):
        return _join([read_numbers(part) for part in (batch.values() if isinstance(batch, Mapping) else batch)])
    if hasattr(batch, "iloc") and hasattr(batch, "columns"):
        return _join([read_numbers(batch.iloc[:, place].to_numpy()) for place in range(batch.shape[1])])
    if hasattr(batch, "get_columns"):  # polars
        return _join([read_numbers(column.to_numpy()) for column in batch.get_columns()])
    array = _read_array(batch)
    if array is not None and array.dtype.kind in "mM":
        array = np.where(np.isnat(array), np.nan, array.astype(f"{array.dtype.kind}8[us]").astype(np.float64))
    if array is not None and array.dtype.kind in "OUS" and array.ndim == 1:
        return np.array([[_code(value)] for value in array.tolist()])
    if array is None or array.dtype.kind not in "biuf" or array.ndim == 0:
        return None
    return np.nan_to_num(array.reshape(len(array), -1).astype(np.float64))


def _read_array(batch: Any) -> Array | None:
    """Return an array of one shape; None for records of several, or of objects that are no numbers."""
    if isinstance(batch, list) and not all(isinstance(item, int | float | str | np.ndarray | np.generic) for item in batch):
        return None
    try:
        return loaders.array(batch.toarray() if hasattr(batch, "toarray") else batch)
    except (TypeError, ValueError):
        return None


def _code(value: Any) -> float:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(np.nan_to_num(float(value)))
    text = value.isoformat() if isinstance(value, datetime.date) else str(value)
    if _NUMBER.fullmatch(text):
        return float(np.nan_to_num(float(text)))
    if _DATE.match(text):
        with contextlib.suppress(ValueError):  # text that is no date after all
            return float(np.datetime64(text[:19], "us").astype(np.int64))
    return int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=4).digest(), "big") / 2**32


def _join(parts: list[Array | None]) -> Array | None:
    columns = [part for part in parts if part is not None]
    return np.concatenate(columns, axis=1) if columns and len(columns) == len(parts) else None


def digest(batch: Any) -> bytes | None:
    """Return a hash of one record, equal for equal records; None for objects that cannot be written down."""
    try:
        return hashlib.blake2b(pickle.dumps(_plain(batch)), digest_size=16).digest()
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    """Return a value with bytes that depend on numbers and text alone."""
    if isinstance(value, Mapping):
        return [(str(key), _plain(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "iloc") or hasattr(value, "get_column"):  # pandas, polars
        return _plain(value.rows() if hasattr(value, "get_column") else value.to_numpy(dtype=object).ravel().tolist())
    if hasattr(value, "tocsr"):
        value = value.toarray()
    if hasattr(value, "detach") or isinstance(value, np.ndarray | np.generic):
        array = loaders.array(value)
        return _plain(array.tolist()) if array.dtype.kind == "O" else (array.shape, array.dtype.str, array.tobytes())
    if isinstance(value, str | bytes | int | float | bool | type(None)):
        return value
    fields = getattr(value, "to_dict", None)  # graphs of PyTorch Geometric
    return _plain(fields()) if callable(fields) else _plain(vars(value)) if hasattr(value, "__dict__") else value


def exchange_parts(rows: RowContainer) -> Iterator[tuple[str, Callable[[RowContainer], RowContainer]]]:
    """Yield what exchanges two parts of a tuple or a dictionary that look alike, with its name; six pairs at most."""
    batch = rows.take(np.arange(min(len(rows), 2)))
    if not isinstance(batch, Mapping | tuple):
        return
    keys: list[Any] = list(batch) if isinstance(batch, Mapping) else list(range(len(batch)))
    pairs = [pair for pair in itertools.combinations(keys, 2) if describe(batch[pair[0]]) == describe(batch[pair[1]])]
    for pair in pairs[:_MOST_PAIRS]:
        names = [repr(key) if isinstance(key, str) else f"part {key + 1}" for key in pair]
        yield f"{' and '.join(names)} of x exchanged", functools.partial(_exchange, keys=keys, pair=pair)


def _exchange(rows: RowContainer, keys: list[Any], pair: tuple[Any, Any]) -> RowContainer:
    partners = {pair[0]: pair[1], pair[1]: pair[0]}

    def take(places: Array) -> Any:
        batch = rows.take(places)
        parts = {key: batch[partners.get(key, key)] for key in keys}
        return parts if isinstance(batch, Mapping) else tuple(parts.values())

    return RowContainer(size=len(rows), take=take)


def find_digests(rows: RowContainer) -> Array:
    """Return a hash of each record, `(n,)` bytes; a record that cannot be written down is equal to no other."""
    values = [digest(rows.take(np.array([place]))) for place in range(len(rows))]
    names = [place.to_bytes(16, "big") if value is None else value for place, value in enumerate(values)]
    return np.array(names, dtype="V16")


def concatenate(first: Any, second: Any, names: tuple[str, str]) -> Any:
    """The records of two containers of one form, which messages call by `names`, as one; `DataError` if the forms differ."""
    if isinstance(first, Mapping) and isinstance(second, Mapping) and list(first) == list(second):
        return {key: concatenate(first[key], second[key], (f"{names[0]}['{key}']", f"{names[1]}['{key}']")) for key in first}
    if isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second):
        places = range(len(first))
        return tuple(concatenate(first[at], second[at], (f"{names[0]}[{at}]", f"{names[1]}[{at}]")) for at in places)
    if type(first) is type(second):
        if hasattr(first, "iloc") and list(getattr(first, "columns", ())) == list(getattr(second, "columns", ())):
            import pandas as pd

            return pd.concat([first, second], ignore_index=True)
        if hasattr(first, "vstack") and list(first.columns) == list(second.columns):  # polars
            return first.vstack(second)
        if hasattr(first, "tocsr") and first.shape[1] == second.shape[1]:
            return _join_sparse(first.tocsr(), second.tocsr())
        if not hasattr(first, "columns") and not hasattr(first, "tocsr") and not isinstance(first, Mapping | tuple):
            return first + second if isinstance(first, list) else _join_arrays(first, second, names)
    raise DataError(f"{names[0]} are {describe(first)}, {names[1]} {describe(second)}; expected the same form on both sides")


def _join_arrays(first: Any, second: Any, names: tuple[str, str]) -> Any:
    """Return arrays or tensors joined; whole numbers on one side alone were scaled in another way."""
    arrays = loaders.array(first), loaders.array(second)
    full = [array.dtype.kind in "biu" for array in arrays]
    if arrays[0].shape[1:] != arrays[1].shape[1:] or full[0] != full[1]:
        raise DataError(
            f"{names[0]} are {describe(first)}, {names[1]} {describe(second)}; expected records of one shape and one kind of "
            "numbers on both sides, exactly as the model takes them"
        )
    if hasattr(first, "detach"):
        return first.new_tensor(np.concatenate(arrays))
    return np.concatenate(arrays)


def _join_sparse(first: Any, second: Any) -> Any:
    ends = np.concatenate([first.indptr, second.indptr[1:] + first.indptr[-1]])
    parts = [np.concatenate([getattr(first, name), getattr(second, name)]) for name in ("data", "indices")]
    return type(first)((*parts, ends), shape=(first.shape[0] + second.shape[0], first.shape[1]))


def describe(batch: Any) -> str:
    """Return in a few words what a batch is."""
    if isinstance(batch, Mapping):
        return "{" + ", ".join(f"'{key}': {describe(value)}" for key, value in list(batch.items())[:6]) + "}"
    if isinstance(batch, tuple):
        return "(" + ", ".join(describe(part) for part in batch) + ")"
    if hasattr(batch, "iloc") and hasattr(batch, "columns"):
        return f"a DataFrame of {len(batch)} rows and the columns {', '.join(map(str, list(batch.columns)[:8]))}"
    if hasattr(batch, "shape"):
        return f"{type(batch).__name__} {getattr(batch, 'dtype', '')}{tuple(batch.shape)}".replace("torch.", "")
    if isinstance(batch, list):
        return f"a list of {len(batch)} {type(batch[0]).__name__}" if batch else "an empty list"
    return f"a {type(batch).__name__}"
