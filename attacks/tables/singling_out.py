"""Singling out: predicates that exactly one synthetic record meets, and whether exactly one real record does."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks.tables.columns import TableTriple
from audit.core.data import Array

MOST_TRIES = 50  # candidates for each predicate that is wanted


@dataclass(frozen=True, slots=True)
class Condition:
    """One column's part of a predicate: `operator` is "==", "!=", ">=" or "<="; a missing number equals a missing number."""

    place: int
    operator: str
    value: float

    def holds(self, records: Array) -> Array:
        """`(n,)` bool of the records `(n, columns)`."""
        values = records[:, self.place]
        if self.operator in ("==", "!="):
            equal = np.isnan(values) if np.isnan(self.value) else values == self.value
            return equal if self.operator == "==" else ~equal
        return values >= self.value if self.operator == ">=" else values <= self.value


Predicate = tuple[Condition, ...]


def matches(predicate: Predicate, records: Array) -> Array:
    """Return the rows that meet every condition."""
    rows = np.arange(len(records))
    for condition in predicate:
        rows = rows[condition.holds(records[rows])]
    return rows


def one_column(tables: TableTriple, count: int, random: np.random.Generator) -> list[Predicate]:
    """Predicates of one column: values that occur once among synthetic records, and their smallest and largest numbers.

    References: Giomi et al. 2023, "A unified framework for quantifying privacy risk in synthetic data", section 4.2.
    """
    records, conditions = tables.synthetic, []
    for place in range(len(tables.names)):
        values, counts = np.unique(records[:, place], return_counts=True, equal_nan=True)
        conditions += [Condition(place, "==", float(value)) for value in values[counts == 1]]
        numbers = values[~np.isnan(values)]
        if not tables.is_category[place] and len(numbers):
            conditions += [Condition(place, "<=", float(numbers[0])), Condition(place, ">=", float(numbers[-1]))]
    unique = [(condition,) for condition in conditions if len(matches((condition,), records)) == 1]
    return [unique[row] for row in random.permutation(len(unique))[:count]]


def several_columns(tables: TableTriple, columns: int, count: int, random: np.random.Generator) -> list[Predicate]:
    """Predicates of `columns` columns that exactly one synthetic record meets: its categories, and its numbers or beyond.

    A number above the synthetic median gives "at least", else "at most". Fewer than `count` if `MOST_TRIES` candidates for
    each did not suffice.
    """
    records = np.unique(tables.synthetic, axis=0)  # a record that is there twice counts once
    medians = np.array([np.median(column[~np.isnan(column)]) if not np.isnan(column).all() else 0.0 for column in records.T])
    predicates: dict[Predicate, None] = {}
    for _ in range(MOST_TRIES * count):
        if len(predicates) == count:
            break
        record = records[random.integers(len(records))]
        places = sorted(random.choice(len(tables.names), columns, replace=False).tolist())
        predicate = tuple(_condition(tables, place, float(record[place]), float(medians[place])) for place in places)
        if predicate not in predicates and len(matches(predicate, records)) == 1:
            predicates[predicate] = None
    return list(predicates)


def _condition(tables: TableTriple, place: int, value: float, median: float) -> Condition:
    if tables.is_category[place] or np.isnan(value):
        return Condition(place, "==", value)
    return Condition(place, ">=" if value > median else "<=", value)


def guesses(tables: TableTriple, columns: int, count: int, random: np.random.Generator) -> list[Predicate]:
    """Predicates of random columns, operators and values of those columns: what needs no synthetic record."""
    predicates = []
    for _ in range(count):
        places = random.choice(len(tables.names), columns, replace=False).tolist()
        predicates.append(tuple(_guess(tables, place, random) for place in places))
    return predicates


def _guess(tables: TableTriple, place: int, random: np.random.Generator) -> Condition:
    operators = ("==", "!=") if tables.is_category[place] else ("==", "!=", ">=", "<=")
    value = float(random.choice(np.unique(tables.synthetic[:, place])))
    return Condition(place, str(random.choice(operators)), value)


def successes(predicates: Sequence[Predicate], records: Array) -> int:
    """Return how many predicates exactly one record meets."""
    return sum(len(matches(predicate, records)) == 1 for predicate in predicates)
