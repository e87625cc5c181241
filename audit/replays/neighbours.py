"""Neighbours of a data set: one record less, more or replaced, by records at the ends of the range and beyond it."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.replays.records import RecordList, as_float, fill, numbers_in
from audit.replays.users import UserList

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
        unit: name of the column (or key) of a user: then users join, leave or change, with all records of theirs.
        most: pairs.

    Raises:
        ConfigError: data of another type, without a record, or of which no neighbour differs.
    """
    records = RecordList(data) if unit is None else UserList(data, unit)
    if not records.count:
        raise ConfigError("data holds no record; give at least one, of which neighbours can be made")
    bases: list[tuple[str, RecordList]] = [("", records)]
    if records.count > 3:
        bases.append((f", of the first 2 {records.noun}s", records.like(records.take([0, 1]))))
    bases.append((f", of equal {records.noun}s", records.like(records.take([0] * min(records.count, 5)))))
    strangers = list(_strangers(records, (low, high)))
    pairs: list[NamedPair] = []
    for (name, base), share in zip(bases, _SHARES, strict=False):
        pairs += itertools.islice(_one_base(name, base, adjacency, strangers), max(1, int(most * share)))
    pairs += itertools.islice(_walk(records, adjacency, strangers), most - len(pairs))
    if not pairs:
        raise ConfigError("no neighbour that differs can be made of the data; give a list of pairs (data, neighbour)")
    return _share(pairs)


def _share(pairs: list[NamedPair]) -> list[NamedPair]:
    """Return each pair once, with equal data sets as one object: they share runs."""
    table, unique_pairs = dict[Any, Any](), dict[Any, NamedPair]()

    def shared(data: Any) -> Any:
        try:
            key: Any = pickle.dumps(data)
        except (pickle.PicklingError, TypeError, ValueError, AttributeError, RuntimeError):
            key = id(data)  # then only identity tells; the pairs keep it
        return table.setdefault(key, data)

    for name, *sides in pairs:
        first, second = map(shared, sides)
        unique_pairs.setdefault((id(first), id(second)), (name, first, second))
    return list(unique_pairs.values())


def _walk(records: RecordList, adjacency: Adjacency, strangers: list[tuple[str, Any]]) -> Iterator[NamedPair]:
    """Yield the steps of a walk from the data to none, or to one of equal records: what a decision flips on is on the way."""
    text, stranger = strangers[0]
    current = records
    for i in range(records.count - 1, -1, -1):
        if adjacency is Adjacency.ADD_REMOVE:
            name, successor = f"the last of {i + 1} {records.noun}s removed", records.take(range(i))
        else:
            to_zero = adjacency is Adjacency.ZERO_OUT
            name = f"{records.label(i)} became {'zero' if to_zero else text}, as those behind it"
            new = _zero(current, i) if to_zero else stranger
            if not _differs(current, i, new):
                continue
            successor = current.replace(i, new)
        yield name, current.data, successor
        current = records.like(successor)


def _one_base(name: str, records: RecordList, adjacency: Adjacency, strangers: list[tuple[str, Any]]) -> Iterator[NamedPair]:
    base, indices = records.data, list(range(records.count))
    places = list(dict.fromkeys([0, records.count - 1, records.count // 2]))[:_REMOVALS]
    if adjacency is Adjacency.ADD_REMOVE:
        for i in places:
            yield f"{records.label(i)} removed{name}", base, records.take([j for j in indices if j != i])
        for text, record in strangers:
            yield f"{records.newcomer}{text} added{name}", base, records.append(record)
        if records.count > 1:
            yield f"the only {records.noun} removed{name}", records.take([0]), records.take([])
        return
    first, last = records.label(0), records.count - 1
    if adjacency is Adjacency.ZERO_OUT:
        bases = [(records.label(i), records, i) for i in places]
        bases += [(f"{text} in place of {first}", records.like(records.replace(0, record)), 0) for text, record in strangers]
        cases = [(f"{text} became zero", case, i, _zero(case, i)) for text, case, i in bases]
    else:
        (high, highest), (low, lowest) = (strangers * 2)[:2]
        cases = [(f"{low} in place of {first} became {high}", records.like(records.replace(0, lowest)), 0, highest)]
        cases += [(f"{first} became {text}", records, 0, record) for text, record in strangers]
        cases += [(f"the last {records.noun} became {text}", records, last, record) for text, record in strangers[:2]]
    for text, case, i, record in cases:
        if _differs(case, i, record):
            yield f"{text}{name}", case.data, case.replace(i, record)


def _differs(records: RecordList, place: int, record: Any) -> bool:
    """True if a data set has another record at a place."""
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return repr(records.get(place)) != repr(record)


def _zero(records: RecordList, place: int) -> Any:
    """Return the record at a place as one of zeros."""
    record = fill(records.get(place), 0.0)
    if record is None:
        raise ConfigError("adjacency is 'zero_out', and a record holds no number that could become 0")
    return _keep_label(records.data, record)


def _strangers(records: RecordList, ends: tuple[float | None, float | None]) -> Iterator[tuple[str, Any]]:
    """Yield further records that a data set may hold, each with its description."""
    model = records.model()
    numbers: list[float] = [x for i in range(min(records.count, 200)) for x in numbers_in(records.get(i))]
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
        record = fill(model, number, truth=number >= high)
        if record is not None:
            yield text, _keep_label(records.data, record)
    yield "a duplicate", copy.deepcopy(model)
    for text, word in (("a new category", "a value never seen"), ("an empty text", "")):
        if (record := fill(model, word)) is not None:
            yield text, record


def _keep_label(data: Any, record: Any) -> Any:
    """Return a record of inputs and a label with a label that its data have: a model's classes are public."""
    if not isinstance(data, tuple) or len(data) < 2 or np.ndim(data[0]) < 2:
        return record
    labels = np.asarray(data[-1])
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        return record
    return [*record[:-1], type(record[-1])(np.clip(record[-1], labels.min(), labels.max()))]


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
            number = math.inf if isinstance(item, str) else as_float(item)
            values = [item] if not math.isfinite(number) else [item, number + 1e-3, number - 1e-3]
            strangers += [_keep_label(data, record) for value in values if (record := fill(model, value)) is not None]
        # appended once for all, so that any data set tried is a choice of places
        for record in strangers:
            whole = records.like(whole).append(record)
        if adjacency is Adjacency.ZERO_OUT:
            zero = _zero(records, 0)
            whole = records.like(whole).append(zero)
        self.records, self._adjacency = records.like(whole), adjacency
        self.sizes = [0, 1, 2, 3, 4, 6, 8, 12, min(records.count, _LARGEST)]
        self.sizes += [int(item) + i for item in constants if type(item) is int and 1 < item < _LARGEST for i in (-1, 0)]
        places = [place for place, text in enumerate(named, records.count) if text in ("a high record", _BEYOND)]
        self._own, self._farthest = records.count, places or [records.count]

    def of_sizes(self) -> list[DrawnPair]:
        """Return pairs of own records in turn with a far one behind them: of many records, and of each number in the code."""
        sizes = dict.fromkeys([_LARGE_COUNT, *self.sizes[9:]][:_MOST_SIZES])
        rows = [(tuple(i % self._own for i in range(size)), far) for size in sizes for far in self._farthest]
        new = self._substitute(0)
        return [DrawnPair(places=row, position=len(row), record=far, substitute=new) for row, far in rows]

    def draw(self, stream: np.random.Generator, best: DrawnPair | None) -> DrawnPair:
        """Return a fresh pair, or the best one with a change."""
        count = self.records.count
        record, substitute = (int(i) for i in stream.integers(count, size=2))
        if best is None or stream.random() < 0.5:
            size = int(stream.choice(self.sizes))
            kinds = stream.integers(count, size=stream.choice([1, 2, count]))  # data sets of one or two records, repeated
            places = [int(i) for i in stream.choice(kinds, size)] if size else []
        elif best.places and stream.random() < 0.5:  # one or two records that both hold are others
            places = list(best.places)
            for place in stream.integers(len(places), size=stream.choice([1, 2])):
                places[place] = int(stream.choice([*places, int(stream.integers(count))]))
            return replace(best, places=tuple(places))
        else:
            places = [place for place in best.places if stream.random() > 0.1]
            record = best.record if stream.random() < 0.8 else record
            if stream.random() < 0.7:
                repeat = int(stream.choice(places)) if places and stream.random() < 0.5 else int(stream.integers(count))
                places += [repeat] * int(stream.choice([1, 2, 8]))
            places = places[:_LARGEST]
        position = int(stream.choice([0, len(places), int(stream.integers(len(places) + 1))]))
        return DrawnPair(places=tuple(places), position=position, record=record, substitute=self._substitute(substitute))

    def _substitute(self, place: int) -> int | None:
        """Return what a record becomes: one of the pool, the zero record behind all of them, or nothing."""
        return {Adjacency.REPLACE_ONE: place, Adjacency.ZERO_OUT: self.records.count - 1}.get(self._adjacency)

    def build(self, pair: DrawnPair) -> tuple[Any, Any]:
        """Return the two data sets."""
        places, position = list(pair.places), pair.position
        data = self.records.like(self.records.take([*places[:position], pair.record, *places[position:]]))
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
