"""Neighbours of a data set: one record less, more or replaced, by records at the ends of the range and beyond it."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError

MOST_PAIRS = 40
_REMOVALS = 3  # of each data set: first, last, and one between
_SHARES = (0.45, 0.15, 0.15)  # of the pairs that each data set gets; the walk has the others
_HOSTILE = ("a record of NaN", "an infinite record")
_BEYOND = "a record beyond the bounds"
_MOST_CONSTANTS, _LARGEST = 40, 200  # of the code of a program; records of a random data set
_LARGE_COUNT, _MOST_SIZES = 100, 9  # records where few are given; data sets by their size alone
NamedPair = tuple[str, Any, Any]


def own_pairs(data: Any) -> list[NamedPair] | None:
    """Return pairs that a caller gives as `[(data, neighbour), ...]`, or None if it is one data set.

    Raises:
        ConfigError: a pair is one data set twice.
    """
    if not isinstance(data, list) or not data or not all(isinstance(item, tuple) and len(item) == 2 for item in data):
        return None
    if any(isinstance(part, int | float | complex | bytes) for pair in data for part in pair):
        return None
    for i, pair in enumerate(data):
        checks.distinct(pair[0], pair[1], f"pair {i}")
    return [(f"pair {i}", *pair) for i, pair in enumerate(data)]


def make_pairs(
    data: Any,
    adjacency: Adjacency,
    *,
    low: float | None = None,
    high: float | None = None,
    unit: str | None = None,
    most: int = MOST_PAIRS,
) -> list[NamedPair]:
    """Return pairs of neighbours: of the data set itself, of its first records, of one record repeated.

    Args:
        data: an array, list, DataFrame, tensor, text, tuple of arrays of one length, or dictionary of columns or of records.
        adjacency: whether a record is added and removed, or replaced.
        low, high: ends of the range of a number; those of the data if None.
        unit: name of the column (or key) of a user: then all records of one user are removed too.
        most: pairs.

    Raises:
        ConfigError: data of another type, or without a record.
    """
    records = RecordList(data)
    if not records.count:
        raise ConfigError("data holds no record; give at least one, of which neighbours can be made")
    bases: list[tuple[str, Any]] = [("", data)]
    if records.count > 3:
        bases.append((", of the first 2 records", records.take([0, 1])))
    bases.append((", of equal records", records.take([0] * min(records.count, 5))))
    streams = [_one_base(name, base, adjacency, (low, high), data) for name, base in bases]
    first = list(_user_pairs(records, unit)) if unit is not None else []
    rounds: list[NamedPair] = []
    for stream, share in zip(streams, _SHARES, strict=False):
        rounds += [pair for pair, _ in zip(stream, range(max(1, int(most * share))), strict=False)]
    steps = _walk(records, adjacency, (low, high))
    return [*(first + rounds)[:most], *(pair for pair, _ in zip(steps, range(most - len(first + rounds)), strict=False))]


def _walk(records: RecordList, adjacency: Adjacency, ends: tuple[float | None, float | None]) -> Iterator[NamedPair]:
    """Yield the steps of a walk from the data to none, or to one of equal records: what a decision flips on is on the way."""
    stranger = next((record for _, record in _strangers(records, ends)), None)
    data = records.data
    for i in range(records.count - 1, -1, -1):
        if adjacency is Adjacency.ADD_REMOVE:
            name, successor = f"the last of {i + 1} records removed", records.take(range(i))
        elif stranger is None:
            return
        else:
            name, successor = f"record {i} became a high record, as those behind it", RecordList(data).replace(i, stranger)
        yield name, data, successor
        data = successor


def _one_base(
    name: str, base: Any, adjacency: Adjacency, ends: tuple[float | None, float | None], whole: Any
) -> Iterator[NamedPair]:
    records = RecordList(base)
    indices = list(range(records.count))
    places = list(dict.fromkeys([0, records.count - 1, records.count // 2]))[:_REMOVALS]
    strangers = list(_strangers(RecordList(whole), ends))
    if adjacency is Adjacency.ADD_REMOVE:
        for i in places:
            yield f"record {i} removed{name}", base, records.take([j for j in indices if j != i])
        for text, record in strangers:
            yield f"{text} added{name}", base, records.append(record)
        if records.count > 1:
            yield f"the only record removed{name}", records.take([0]), records.take([])
    else:
        for text, record in strangers:
            if repr(record) != repr(records.get(0)):
                yield f"record 0 became {text}{name}", base, records.replace(0, record)
        for text, record in strangers[:2]:
            yield f"the last record became {text}{name}", base, records.replace(records.count - 1, record)


def _user_pairs(records: RecordList, unit: str) -> Iterator[NamedPair]:
    users = records.values(unit)
    for user in list(dict.fromkeys(users))[:6]:
        yield (
            f"all records of {unit} {user!r} removed",
            records.data,
            records.take([i for i, name in enumerate(users) if name != user]),
        )


def _strangers(records: RecordList, ends: tuple[float | None, float | None]) -> Iterator[tuple[str, Any]]:
    """Yield further records that a data set may hold, each with its description."""
    model = records.get(0)
    numbers: list[float] = [x for i in range(min(records.count, 200)) for x in _numbers(records.get(i))]
    finite = [x for x in numbers if math.isfinite(x)] or [0.0, 1.0]
    low, high = (min(finite) if ends[0] is None else ends[0]), (max(finite) if ends[1] is None else ends[1])
    values = {
        "a high record": high,
        "a low record": low,
        _BEYOND: 1e6 * max(1.0, abs(high)),
        "a record of NaN": math.nan,
        "a record in the middle": (low + high) / 2,
        "an infinite record": math.inf,
        "a record far below": -1e6 * max(1.0, abs(low)),
    }
    for text, number in values.items():
        record = _fill(model, number)
        if record is not None:
            yield text, _keep_label(records.data, record)
    yield "a duplicate", copy.deepcopy(model)
    if (unknown := _fill(model, "a value never seen")) is not None:
        yield "a new category", unknown


def _keep_label(data: Any, record: Any) -> Any:
    """Return a record of inputs and a label with a label that its data have: a model's classes are public."""
    if not isinstance(data, tuple) or len(data) < 2 or np.ndim(data[0]) < 2:
        return record
    labels = np.asarray(data[-1])
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        return record
    return [*record[:-1], type(record[-1])(np.clip(record[-1], labels.min(), labels.max()))]


def _numbers(record: Any) -> list[float]:
    if isinstance(record, bool | str | bytes) or record is None:
        return []
    if isinstance(record, int | float | np.number):
        return [_as_float(record)]
    if isinstance(record, dict):
        return [x for part in record.values() for x in _numbers(part)]
    if isinstance(record, np.ndarray):
        return [float(x) for x in record.ravel()[:50]] if record.dtype.kind in "biuf" else []
    return [x for part in record for x in _numbers(part)] if isinstance(record, list | tuple) else []


def _as_float(number: Any) -> float:
    """Return a number as a float; a whole number that no float holds is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _fill(record: Any, new: Any) -> Any:  # noqa: PLR0911 (one arm a type)
    """Return a record like another one with every number (or text) replaced, or None if it has none."""
    text = isinstance(new, str)
    if isinstance(record, str):
        return new if text else None
    if isinstance(record, np.ndarray):
        if record.dtype.kind not in "iuf" or text:
            return None
        value = _within(record.dtype, new)
        return None if value is None else np.full_like(record, value)
    if isinstance(record, bool) or record is None:
        return None
    if isinstance(record, np.integer | np.floating):
        value = None if text else _within(record.dtype, new)
        return None if value is None else type(record)(value)
    if isinstance(record, int):
        return None if text or not math.isfinite(_as_float(new)) else int(new)
    if isinstance(record, float):
        return None if text else type(record)(_as_float(new))
    if isinstance(record, dict):
        filled = {key: _fill(part, new) for key, part in record.items()}
        union = {key: part if filled[key] is None else filled[key] for key, part in record.items()}
        return union if any(part is not None for part in filled.values()) else None
    if isinstance(record, list | tuple):
        parts = [_fill(part, new) for part in record]
        return (
            type(record)(old if part is None else part for old, part in zip(record, parts, strict=True))
            if any(p is not None for p in parts)
            else None
        )
    return None


def _within(dtype: Any, number: float) -> Any:
    """Return a number moved to the ends of what a type of numpy holds, or None if it holds nothing of the kind."""
    if not math.isfinite(_as_float(number)):
        return None if dtype.kind in "iu" else _as_float(number)
    limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    kind = int if dtype.kind in "iu" else float
    return max(kind(limits.min), min(kind(limits.max), kind(number)))


def _new_key(keys: Any) -> Any:
    """Return a key that a dictionary does not hold: the next whole number, or a text with a number."""
    if all(type(key) is int for key in keys):
        return max(keys, default=-1) + 1
    return next(name for number in itertools.count(len(keys)) if (name := f"new {number}") not in keys)


class RecordList:
    """A data set of any supported type as records that can be taken, appended and replaced."""

    def __init__(self, data: Any) -> None:
        self.data = data
        columns = list(data.values()) if isinstance(data, dict) else list(data) if isinstance(data, tuple) else []
        lengths = {len(part) for part in columns if hasattr(part, "__len__") and not isinstance(part, str)}
        self.columns = (
            bool(columns)
            and len(lengths) == 1
            and all(isinstance(part, np.ndarray | list) or hasattr(part, "new_tensor") for part in columns)
        )
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
        self.count = lengths.pop() if self.columns else len(data.splitlines()) if isinstance(data, str) else len(data)

    def _over_columns(self, change: Callable[[Any, int], Any]) -> Any:
        if isinstance(self.data, dict):
            return {key: change(part, i) for i, (key, part) in enumerate(self.data.items())}
        return tuple(change(part, i) for i, part in enumerate(self.data))

    def get(self, place: int) -> Any:
        if self.columns:
            return [RecordList(part).get(place) for part in (self.data.values() if isinstance(self.data, dict) else self.data)]
        if self.frame:
            return self.data.iloc[place].to_dict() if hasattr(self.data, "columns") else self.data.iloc[place]
        if isinstance(self.data, dict):
            return list(self.data.values())[place]
        if isinstance(self.data, str):
            return self.data.splitlines()[place]
        if self.tensor:
            return np.asarray(self.data[place])
        return self.data[place]

    def take(self, places: Sequence[int]) -> Any:
        """Return a data set of the records at these places."""
        if self.columns:
            return self._over_columns(lambda part, _: RecordList(part).take(places))
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
            key = _new_key(keys) if items[i][0] in table else items[i][0]
            table[key] = keys[key] = items[i][1]
        return table

    def _join(self, lines: Sequence[str]) -> str:
        """Return lines as a text that ends as the data do; an empty last line is a record only with its end."""
        return "\n".join(lines) + "\n" * bool(lines and (self.data.endswith("\n") or not lines[-1]))

    def append(self, record: Any) -> Any:  # noqa: PLR0911 (one arm a type)
        """Return the data set with a record more, as the last."""
        if self.columns:
            return self._over_columns(lambda part, i: RecordList(part).append(record[i]))
        if self.frame:
            row = type(self.data)([record])
            return type(self.data)(_stack_frames(self.data, row))
        if isinstance(self.data, dict):
            return {**self.data, _new_key(self.data): record}
        if isinstance(self.data, str):
            return self._join([*self.data.splitlines(), record])
        if isinstance(self.data, list):
            return [*self.data, record]
        if self.tensor:
            return self.data.new_tensor(np.concatenate([np.asarray(self.data), np.asarray(record)[None]]))
        return np.concatenate([self.data, np.asarray(record, dtype=self.data.dtype)[None]])

    def replace(self, place: int, record: Any) -> Any:
        """Return the data set with one record replaced, the order kept."""
        if isinstance(self.data, dict) and not self.columns:
            return {key: record if i == place else part for i, (key, part) in enumerate(self.data.items())}
        order = list(range(self.count))
        order[place] = self.count
        return RecordList(self.append(record)).take(order)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPair:
    """A pair made of records of a pool: `places` are those that both data sets hold; `record` comes before `position`."""

    places: tuple[int, ...]
    position: int
    record: int
    substitute: int | None


class PairPool:
    """Random pairs of neighbours: of the records of a data set, of strangers, of numbers and texts in the program's code."""

    def __init__(
        self, data: Any, adjacency: Adjacency, ends: tuple[float | None, float | None], constants: Sequence[Any]
    ) -> None:
        records, whole = RecordList(data), data
        model = records.get(0)
        named = {text: record for text, record in _strangers(records, ends) if text not in _HOSTILE}
        strangers = list(named.values())
        for item in constants[:_MOST_CONSTANTS]:
            if isinstance(data, str) and len(f"{item}\n".splitlines()) > 1:
                continue  # several lines are no record of a text
            number = math.inf if isinstance(item, str) else _as_float(item)
            values = [item] if not math.isfinite(number) else [item, number + 1e-3, number - 1e-3]
            strangers += [_keep_label(data, record) for value in values if (record := _fill(model, value)) is not None]
        for record in strangers:
            whole = RecordList(whole).append(record)
        self.records, self.replaces = RecordList(whole), adjacency is Adjacency.REPLACE_ONE
        self.sizes = [0, 1, 2, 3, 4, 6, 8, 12, min(records.count, _LARGEST)]
        self.sizes += [int(item) + i for item in constants if type(item) is int and 1 < item < _LARGEST for i in (-1, 0)]
        places = [place for place, text in enumerate(named, records.count) if text in ("a high record", _BEYOND)]
        self._own, self._farthest = records.count, places or [records.count]

    def of_sizes(self) -> list[DrawnPair]:
        """Return pairs of own records in turn with a far one behind them: of many records, and of each number in the code."""
        sizes = dict.fromkeys([_LARGE_COUNT, *self.sizes[9:]][:_MOST_SIZES])
        rows = [(tuple(i % self._own for i in range(size)), far) for size in sizes for far in self._farthest]
        new = 0 if self.replaces else None
        return [DrawnPair(places=row, position=len(row), record=far, substitute=new) for row, far in rows]

    def draw(self, stream: np.random.Generator, best: DrawnPair | None) -> DrawnPair:
        """Return a fresh pair, or the best one with a change."""
        count = self.records.count
        record, substitute = (int(i) for i in stream.integers(count, size=2))
        if best is None or stream.random() < 0.5:
            size = int(stream.choice(self.sizes))
            kinds = stream.integers(count, size=stream.choice([1, 2, count]))  # data sets of one or two records, repeated
            places = [int(i) for i in stream.choice(kinds, size)] if size else []
        else:
            places = [place for place in best.places if stream.random() > 0.1]
            record = best.record if stream.random() < 0.8 else record
            if stream.random() < 0.7:
                repeat = int(stream.choice(places)) if places and stream.random() < 0.5 else int(stream.integers(count))
                places += [repeat] * int(stream.choice([1, 2, 8]))
            places = places[:_LARGEST]
        position = int(stream.choice([0, len(places), int(stream.integers(len(places) + 1))]))
        new = substitute if self.replaces else None
        return DrawnPair(places=tuple(places), position=position, record=record, substitute=new)

    def build(self, pair: DrawnPair) -> tuple[Any, Any]:
        """Return the two data sets."""
        places, position = list(pair.places), pair.position
        data = RecordList(self.records.take([*places[:position], pair.record, *places[position:]]))
        if isinstance(data.data, dict) and not data.columns:  # what both hold has one key in both
            if pair.substitute is not None:
                return data.data, data.replace(position, self.records.get(pair.substitute))
            return data.data, data.take([i for i in range(data.count) if i != position])
        second = [*places[:position], *(() if pair.substitute is None else (pair.substitute,)), *places[position:]]
        return data.data, self.records.take(second)


def shrink(pair: tuple[Any, Any], still: Callable[[Any, Any], bool], tries: int = 30) -> tuple[Any, Any]:
    """Return the pair with fewer records, of those that both data sets hold, for which `still` is true; halves go first."""
    data, neighbour = pair
    common = _common_places(data, neighbour)
    size = len(common)
    while size:
        start = 0
        while start < len(common) and tries > 0:
            left_out = [{places[side] for places in common[start : start + size]} for side in (0, 1)]
            smaller = [_without(side, places) for side, places in zip((data, neighbour), left_out, strict=True)]
            tries -= 1
            if still(*smaller):
                data, neighbour = smaller
                common = _common_places(data, neighbour)
            else:
                start += size
        size //= 2
    return data, neighbour


def _common_places(data: Any, neighbour: Any) -> list[tuple[int, int]]:
    """Return the places in both data sets of the records that are equal from the front, and from the back."""
    sides = [[repr(records.take([i])) for i in range(records.count)] for records in (RecordList(data), RecordList(neighbour))]
    counts = len(sides[0]), len(sides[1])
    shorter = min(counts)
    front = next((i for i in range(shorter) if sides[0][i] != sides[1][i]), shorter)
    back = next((i for i in range(shorter - front) if sides[0][-1 - i] != sides[1][-1 - i]), shorter - front)
    return [(i, i) for i in range(front)] + [(counts[0] - i, counts[1] - i) for i in range(back, 0, -1)]


def _without(data: Any, places: set[int]) -> Any:
    records = RecordList(data)
    return records.take([i for i in range(records.count) if i not in places])
