"""What a program of the corpus is, and the pairs of neighbouring data sets on which it is replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Pair = tuple[Any, Any]
PROVED, UNREFUTED, REFUTED, FOUND = "proved", "unrefuted", "refuted", "not proved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program `run(data, rng)` with its claim.

    Attributes:
        name: of the program.
        run: takes a data set and a `numpy.random.Generator`; may draw from any other generator instead.
        data: of DATA: the kind of data sets that it takes.
        epsilon: that it claims at `delta`; None if it claims `mu` (Gaussian differential privacy).
        delta: of the claim.
        mu: that it claims.
        adjacency: "add_remove" or "replace_one".
        expect: PROVED (for every pair), UNREFUTED (proved, bounded or not followed, never refuted), REFUTED, or FOUND (never
            proved: for wrong programs of which no single transcript is a proof).
    """

    name: str
    run: Callable[[Any, Any], Any]
    data: str = "numbers"
    epsilon: float | None = 1.0
    delta: float = 0.0
    mu: float | None = None
    adjacency: str = "add_remove"
    expect: str = PROVED


def right(table: dict[str, Callable[[Any, Any], Any]], **claim: Any) -> list[Program]:
    """Return one program per row of a table, all with one claim."""
    return [Program(name=name, run=run, **claim) for name, run in table.items()]


def wrong(table: dict[str, Callable[[Any, Any], Any]], **claim: Any) -> list[Program]:
    """Return one program per row of a table, each of which breaks the claim."""
    return [Program(name=name, run=run, **{"expect": REFUTED, **claim}) for name, run in table.items()]


def clip(data: Any, low: float = 0.0, high: float = 10.0) -> Any:
    """Return the numbers clipped to an interval; what is no number becomes 0."""
    return np.clip(np.nan_to_num(np.asarray(data, float), nan=0.0), low, high)


def counts(data: Any, kinds: int = 4) -> Any:
    """Return how often each category occurs; others than the public ones are not counted."""
    return np.array([np.sum(np.asarray(data) == kind) for kind in range(kinds)], float)


def _numbers(rng: np.random.Generator) -> Any:
    return np.round(rng.uniform(0, 10, rng.integers(2, 9)), 1)


def _categories(rng: np.random.Generator) -> Any:
    return rng.integers(0, 4, rng.integers(2, 12)).astype(float)


def _table(rng: np.random.Generator) -> Any:
    return np.round(rng.uniform(-1, 1, (rng.integers(3, 9), 3)), 2)


def _words(rng: np.random.Generator) -> Any:
    return [str(word) for word in rng.choice(["ash", "birch", "cedar", "elm"], rng.integers(2, 9))]


def _rows(rng: np.random.Generator) -> Any:
    return [
        {"group": str(rng.choice(["a", "b", "c"])), "value": round(float(rng.uniform(0, 10)), 1)}
        for _ in range(rng.integers(2, 8))
    ]


MAKERS: dict[str, tuple[Callable[[np.random.Generator], Any], list[Any]]] = {
    "numbers": (_numbers, [0.0, 5.0, 10.0, 1e6, -1e6, np.nan, np.inf]),
    "bits": (lambda rng: rng.integers(0, 2, rng.integers(2, 8)).astype(float), [0.0, 1.0]),
    "categories": (_categories, [0.0, 3.0, 7.0, -1.0]),
    "table": (_table, [[0.0, 0.0, 0.0], [1.0, -1.0, 1.0], [1e6, 1.0, -1e6], [np.nan, 0.5, 0.5], [np.inf, 0.0, 1.0]]),
    "words": (_words, ["ash", "elm", "yew", ""]),
    "rows": (_rows, [{"group": "a", "value": 10.0}, {"group": "z", "value": 3.0}, {"group": "b", "value": 1e6}]),
}


def _append(data: Any, record: Any) -> Any:
    return [*data, record] if isinstance(data, list) else np.concatenate([data, np.array([record], float)])


def _without(data: Any, index: int) -> Any:
    return [*data[:index], *data[index + 1 :]] if isinstance(data, list) else np.delete(data, index, 0)


def _replace(data: Any, index: int, record: Any) -> Any:
    return [*data[:index], record, *data[index + 1 :]] if isinstance(data, list) else _set(data, index, record)


def _set(data: Any, index: int, record: Any) -> Any:
    changed = np.array(data, float)
    changed[index] = record
    return changed


def _neighbours(data: Any, program: Program, rng: np.random.Generator) -> Iterator[Any]:
    index = int(rng.integers(len(data)))
    hostile = MAKERS[program.data][1]
    if program.adjacency == "replace_one":
        yield from (_replace(data, index, record) for record in hostile)
    else:
        yield _without(data, index)
        yield from (_append(data, record) for record in hostile)


def make_pairs(program: Program, sets: int = 3, seed: int = 0) -> list[Pair]:
    """Return pairs of neighbours in both directions: `sets` random data sets, and one with a tie."""
    rng = np.random.default_rng(seed)
    make, hostile = MAKERS[program.data]
    bases = [make(rng) for _ in range(sets)]
    tied = bases[0][:0]
    for record in (hostile[0], hostile[1], hostile[0], hostile[1]):
        tied = _append(tied, record)
    result = [(data, neighbour) for data in [*bases, tied] for neighbour in _neighbours(data, program, rng)]
    return result + [(neighbour, data) for data, neighbour in result]
