"""A data set of any type as records that can be taken, appended and replaced, and records filled with other numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from audit.core.errors import ConfigError


def numbers_in(record: Any) -> list[float]:
    """Return the numbers that a record holds, of an array the first ones."""
    if isinstance(record, bool | str | bytes) or record is None:
        return []
    if isinstance(record, int | float | np.integer | np.floating):
        return [as_float(record)]
    if isinstance(record, dict):
        return [x for part in record.values() for x in numbers_in(part)]
    if isinstance(record, np.ndarray):
        return [float(x) for x in record.ravel()[:50]] if record.dtype.kind in "biuf" else []
    return [x for part in record for x in numbers_in(part)] if isinstance(record, list | tuple) else []


def as_float(number: Any) -> float:
    """Return a number as a float; a whole number that no float holds is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def fill(record: Any, new: Any, truth: bool | None = None) -> Any:  # noqa: PLR0911 (one arm a type)
    """Return a record like another one with every number (or text) replaced, or None if it has none.

    Args:
        truth: what a truth value becomes; None if as `bool` says.
    """
    text = isinstance(new, str)
    if isinstance(record, str):
        return new if text else None
    if (is_truth := isinstance(record, bool | np.bool_)) or (isinstance(record, np.ndarray) and record.dtype.kind == "b"):
        if text or math.isnan(as_float(new)):
            return None
        new = bool(new) if truth is None else truth
        return type(record)(new) if is_truth else np.full_like(record, new)
    if isinstance(record, np.ndarray):
        if record.dtype.kind not in "iuf" or text:
            return None
        value = _within(record.dtype, new)
        return None if value is None else np.full_like(record, value)
    if isinstance(record, np.integer | np.floating):
        value = None if text else _within(record.dtype, new)
        return None if value is None else type(record)(value)
    if isinstance(record, int):
        return None if text or not math.isfinite(as_float(new)) else int(new)
    if isinstance(record, float):
        return None if text else type(record)(as_float(new))
    if isinstance(record, dict):
        filled = {key: fill(part, new, truth) for key, part in record.items()}
        union = {key: part if filled[key] is None else filled[key] for key, part in record.items()}
        return union if any(part is not None for part in filled.values()) else None
    if isinstance(record, list | tuple):
        parts = [fill(part, new, truth) for part in record]
        return (
            type(record)(old if part is None else part for old, part in zip(record, parts, strict=True))
            if any(p is not None for p in parts)
            else None
        )
    return None


def _within(dtype: Any, number: float) -> Any:
    """Return a number moved to the ends of what a type of numpy holds, or None if it holds nothing of the kind."""
    if not math.isfinite(as_float(number)):
        return None if dtype.kind in "iu" else as_float(number)
    limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    kind = int if dtype.kind in "iu" else float
    return max(kind(limits.min), min(kind(limits.max), kind(number)))


def new_key(keys: Any) -> Any:
    """Return a key that a dictionary does not hold: the next whole number, or a text with a number."""
    if all(type(key) in (int, float) for key in keys):
        return max(keys, default=-1) + 1
    return next(name for number in itertools.count(len(keys)) if (name := f"new {number}") not in keys)


class RecordList:
    """A data set of any supported type as records that can be taken, appended and replaced."""

    noun, newcomer = "record", ""  # the latter before what is added

    def __init__(self, data: Any, like: RecordList | None = None) -> None:
        """Read a data set; a part of another one, with fewer records, is read as that is."""
        self.data = data = data.detach() if getattr(data, "requires_grad", False) else data
        # columns of one length: records are rows across them. A list is records, whatever it holds
        parts = list(data.values()) if isinstance(data, dict) else list(data) if isinstance(data, tuple) else []
        lengths = {len(part) for part in parts if hasattr(part, "__len__") and not isinstance(part, str)}
        are_columns = all(isinstance(part, np.ndarray | list) or hasattr(part, "new_tensor") for part in parts)
        has_columns = len(lengths) == 1 and are_columns if like is None else bool(like.columns)
        self.columns: list[RecordList] = [RecordList(part) for part in parts] if has_columns else []
        self.frame = hasattr(data, "iloc")
        self.tensor = hasattr(data, "new_tensor")
        kinds = "array, list, DataFrame, tensor, text, dictionary, tuple of arrays of one length"
        is_container = isinstance(data, np.ndarray | list | str | dict | tuple) or self.frame or self.tensor
        if (
            not is_container
            or (isinstance(data, tuple) and not self.columns)
            or (isinstance(data, np.ndarray) and data.ndim == 0)
        ):
            raise ConfigError(f"data is a {type(data).__name__}; expected an {kinds}, or a list of pairs (data, neighbour)")
        if (self.frame and not getattr(data, "columns", data.index[:0]).is_unique) or (
            self.tensor and str(data.layout) != "torch.strided"
        ):
            raise ConfigError("data is a sparse tensor, or a table with columns of one name; give each its own, or a dense one")
        self.count = lengths.pop() if self.columns else len(data.splitlines()) if isinstance(data, str) else len(data)

    def _with_columns(self, columns: list[Any]) -> Any:
        return dict(zip(self.data, columns, strict=True)) if isinstance(self.data, dict) else tuple(columns)

    def like(self, data: Any) -> RecordList:
        """Return another data set of the same kind."""
        return RecordList(data, self)

    def label(self, place: int) -> str:
        """Return what a record is called."""
        return f"record {place}"

    def model(self) -> Any:
        """Return the record that new ones are made like."""
        return self.get(0)

    def get(self, place: int) -> Any:
        """Return a record."""
        if self.columns:
            return [column.get(place) for column in self.columns]
        if self.frame:
            return self.data.iloc[place].to_dict() if hasattr(self.data, "columns") else self.data.iloc[place]
        if isinstance(self.data, dict):
            return list(self.data.values())[place]
        if isinstance(self.data, str):
            return self.data.splitlines()[place]
        if self.tensor:
            part = self.data[place].cpu()
            return (part.float() if str(part.dtype) == "torch.bfloat16" else part).numpy()  # numpy has no such type
        return self.data[place]

    def take(self, places: Sequence[int]) -> Any:
        """Return a data set of the records at these places."""
        if self.columns:
            return self._with_columns([column.take(places) for column in self.columns])
        if self.frame:
            return self.data.iloc[list(places)].reset_index(drop=True)
        if isinstance(self.data, dict):
            return self._take_keys(places)
        if isinstance(self.data, str):
            lines = self.data.splitlines()
            return self._join([lines[i] for i in places])
        if isinstance(self.data, list):
            return [self.data[i] for i in places]
        return self.data[np.asarray(places, dtype=np.int64)] if not self.tensor else self.data[list(places)]

    def _take_keys(self, places: Sequence[int]) -> Any:
        """Return a dictionary of the records at these places; one that is taken again has a key of its own."""
        items, table, keys = list(self.data.items()), dict[Any, Any](), dict(self.data)
        for i in places:
            key = new_key(keys) if items[i][0] in table else items[i][0]
            table[key] = keys[key] = items[i][1]
        return table

    def _join(self, lines: Sequence[str]) -> str:
        """Return lines as a text that ends as the data do; an empty last line is a record only with its end."""
        return "\n".join(lines) + "\n" * bool(lines and (self.data.endswith("\n") or not lines[-1]))

    def append(self, record: Any) -> Any:  # noqa: PLR0911 (one arm a type)
        """Return the data set with a record more, as the last."""
        if self.columns:
            return self._with_columns([column.append(part) for column, part in zip(self.columns, record, strict=False)])
        if self.frame:
            row = type(self.data)([record])
            return type(self.data)(_stack_frames(self.data, row))
        if isinstance(self.data, dict):
            return {**self.data, new_key(self.data): record}
        if isinstance(self.data, str):
            return self._join([*self.data.splitlines(), record])
        if isinstance(self.data, list):
            return [*self.data, record]
        if self.tensor:
            whole = self.data.new_empty((self.count + 1, *self.data.shape[1:]))
            whole[:-1], whole[-1] = self.data, self.data.new_tensor(np.asarray(record))
            return whole
        return np.concatenate([self.data, np.asarray(record, dtype=self.data.dtype)[None]])

    def replace(self, place: int, record: Any) -> Any:
        """Return the data set with one record replaced, the order kept."""
        if isinstance(self.data, dict) and not self.columns:
            return {key: record if i == place else part for i, (key, part) in enumerate(self.data.items())}
        order = list(range(self.count))
        order[place] = self.count
        return self.like(self.append(record)).take(order)

    def values(self, name: str) -> list[Any]:
        """Return a column, or a key of each record.

        Raises:
            ConfigError: there is none of that name.
        """
        try:
            records = self.data.values() if isinstance(self.data, dict) else self.data
            column = self.data[name] if self.frame or self.columns else [record[name] for record in records]
        except (KeyError, TypeError, IndexError) as error:
            raise ConfigError(f"unit is '{name}', and the data have no column or key of that name") from error
        return [value.item() if hasattr(value, "item") else value for value in column]


def _stack_frames(data: Any, row: Any) -> Any:
    if not hasattr(data, "columns"):
        return [*data.tolist(), *row.tolist()]
    return {name: [*data[name].tolist(), *row[name].tolist()] for name in data.columns}
