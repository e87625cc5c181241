"""Neighbouring data sets to try, if the caller names none.

References:
    Ding, Wang, Wang, Zhang, Kifer 2018, arXiv 1805.10277, table 1 (patterns of query answers).
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.mechanism_checks.sampling import Pair

KINDS = ("answers", "records")


def default_pairs(
    kind: str, *, size: int, low: float, high: float, adjacency: Adjacency, within: bool = False
) -> tuple[Pair, ...]:
    """Return the pairs of a kind: vectors of `size` query answers that move by at most 1, or `size` records.

    Records lie in `[low, high]`; but for `within`, there are pairs too in which one does not.

    Raises:
        ConfigError: no such kind, or an empty range.
    """
    checks.count(size, "size", minimum=1)
    if kind not in KINDS:
        raise ConfigError(f"neighbours is '{kind}'; expected one of {', '.join(KINDS)}, or pairs of your own")
    if not -math.inf < low < high < math.inf:
        raise ConfigError(f"records lie between low = {low} and high = {high}; expected finite numbers, low below high")
    if kind == "answers":
        return answer_pairs(size)
    return (*record_pairs(size, low, high, adjacency), *(() if within else hostile_pairs(size, low, high, adjacency)))


def answer_pairs(size: int) -> tuple[Pair, ...]:
    """Return pairs of answers of counting queries `(size,)`, each of which one record moves by at most 1."""
    half = size // 2
    vectors = {
        "one up": ([1.0] * size, [2.0] + [1.0] * (size - 1)),
        "one down": ([1.0] * size, [0.0] + [1.0] * (size - 1)),
        "all up": ([1.0] * size, [2.0] * size),
        "one up, others down": ([1.0] * size, [2.0] + [0.0] * (size - 1)),
        "one down, others up": ([1.0] * size, [0.0] + [2.0] * (size - 1)),
        "half up, half down": ([1.0] * size, [2.0] * half + [0.0] * (size - half)),
        "one step": ([0.0] * (size - 1) + [1.0], [1.0] * (size - 1) + [0.0]),
        "cross": ([1.0] * half + [0.0] * (size - half), [0.0] * half + [1.0] * (size - half)),
    }
    if size == 1:  # of which most patterns are the same
        vectors = {"one up": vectors["one up"], "one down": vectors["one down"]}
    return tuple(Pair(data=np.array(a), neighbour=np.array(b), name=name) for name, (a, b) in vectors.items())


def record_pairs(size: int, low: float, high: float, adjacency: Adjacency) -> tuple[Pair, ...]:
    """Return pairs of data sets `(size,)` that differ in one record, at the ends and in the middle of its range.

    Under zero-out that record becomes 0. A pair of equal data sets, or one that exists already, is left out.
    """
    middle = (low + high) / 2
    half = size // 2
    bases = {
        "all low": np.full(size, low),
        "all high": np.full(size, high),
        "half low, half high": np.array([low] * half + [high] * (size - half)),
        "all in the middle": np.full(size, middle),
    }
    pairs: dict[tuple[tuple[float, ...], tuple[float, ...]], Pair] = {}
    for name, base in bases.items():
        for record, text in ((low, "low"), (high, "high"), (middle, "middle")):
            data, neighbour, change = base, np.append(base[:-1], record), f"the last turned {text}"
            if adjacency is Adjacency.ADD_REMOVE:
                data, neighbour, change = np.append(base, record), base, f"and one {text}"
            elif adjacency is Adjacency.ZERO_OUT:
                data, neighbour, change = neighbour, np.append(base[:-1], 0.0), f"the last {text} and turned 0"
            if not np.array_equal(data, neighbour):
                pair = Pair(data=data, neighbour=neighbour, name=f"{name}, {change}")
                pairs.setdefault((tuple(data.tolist()), tuple(neighbour.tolist())), pair)
    return tuple(pairs.values())


def hostile_pairs(size: int, low: float, high: float, adjacency: Adjacency) -> tuple[Pair, ...]:
    """Return pairs with a record that is NaN, infinite, huge or outside `[low, high]`, in another order, or none at all."""
    width = high - low
    base = np.array([low] * (size // 2) + [high] * (size - size // 2))
    records = {"NaN": math.nan, "infinite": math.inf, "minus infinite": -math.inf, "huge": 1e30}
    records |= {"far above high": high + 100 * width, "far below low": low - 100 * width}
    cases = {name: (base, np.append(base[:-1], record)) for name, record in records.items()}
    if adjacency is Adjacency.ADD_REMOVE:
        cases = {name: (np.append(base, record), base) for name, record in records.items()}
        cases["the only one"] = (np.array([high]), np.array([]))
        cases["a copy, in reverse order,"] = (np.append(base, high)[::-1].copy(), base)
    elif adjacency is Adjacency.ZERO_OUT:
        cases = {name: (np.append(base[:-1], record), np.append(base[:-1], 0.0)) for name, record in records.items()}
    else:
        cases["the last low, in reverse order,"] = (base, np.append(base[:-1], low)[::-1].copy())
    return tuple(
        Pair(data=data, neighbour=neighbour, name=f"half low, half high, and one record {name}", hostile=True)
        for name, (data, neighbour) in cases.items()
    )


def find_relation(pairs: Sequence[Pair]) -> Adjacency:
    """Return the relation of data sets that a caller gives: of other sizes, or of equal ones, in which a record is replaced.

    Raises:
        ConfigError: sizes that no one can see, that differ by more than one record, or of both kinds.
    """
    relations = {_relation(pair) for pair in pairs}
    if len(relations) > 1:
        raise ConfigError(
            "some pairs add or remove a record and others replace one, which are two claims: audit each with its pairs, or say "
            "which adjacency the claim is about"
        )
    return relations.pop()


def _relation(pair: Pair) -> Adjacency:
    if not (hasattr(pair.data, "__len__") and hasattr(pair.neighbour, "__len__")):
        raise ConfigError(
            f"{pair.name} holds a {type(pair.data).__name__} and a {type(pair.neighbour).__name__}, of which no size tells "
            "whether a record was added or replaced: say adjacency, 'add_remove', 'replace_one' or 'zero_out'"
        )
    difference = abs(len(pair.data) - len(pair.neighbour))
    if difference > 1:
        raise ConfigError(
            f"{pair.name} differs by {difference} in size; expected data sets that differ in one record, or say the "
            "adjacency of the claim"
        )
    return Adjacency.ADD_REMOVE if difference else Adjacency.REPLACE_ONE


def own_pairs(pairs: Any) -> tuple[Pair, ...]:
    """Return pairs that a caller gives as `(data, neighbour)`.

    Raises:
        ConfigError: there is none, or one is no pair, or one data set twice.
    """
    if not isinstance(pairs, Iterable):
        raise ConfigError(f"pairs is a {type(pairs).__name__}; expected a list or a dictionary of (data, neighbour)")
    rows = list(pairs.items()) if isinstance(pairs, dict) else [(str(i), pair) for i, pair in enumerate(pairs)]
    if not rows:
        raise ConfigError("pairs is empty; give at least one (data, neighbour)")
    for name, pair in rows:
        if not isinstance(pair, Sequence) or isinstance(pair, str | bytes) or len(pair) != 2:
            raise ConfigError(f"pair {name} is {_shape(pair)}; expected (data, neighbour)")
        checks.distinct(pair[0], pair[1], f"pair {name}")
    return tuple(Pair(data=pair[0], neighbour=pair[1], name=f"pair {name}") for name, pair in rows)


def _shape(value: Any) -> str:
    size = f" of {len(value)}" if hasattr(value, "__len__") else ""
    return f"a {type(value).__name__}{size}"
