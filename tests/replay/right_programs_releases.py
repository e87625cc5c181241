"""Right programs that add noise to sums, counts and tables: every way to draw the noise, every shape of the query."""

# ruff: noqa: NPY002, PLC3002  programs as users write them: old generators, lambdas called at once
from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from tests.replay.corpus import PROVED, UNREFUTED, Program, clip, counts, right

Draw = Callable[[Any, float, Any], Any]


def _inverse(rng: Any, scale: float, size: Any) -> Any:
    u = rng.random(size) - 0.5
    return -scale * np.sign(u) * np.log(1 - 2 * np.abs(u))


def _box_muller(rng: Any, scale: float, size: Any) -> Any:
    return scale * np.sqrt(-2 * np.log(1 - rng.random(size))) * np.cos(2 * math.pi * rng.random(size))


def _python(draw: Callable[[], float], size: Any) -> Any:
    return draw() if size is None else np.array([draw() for _ in range(size)])


LAPLACE: dict[str, Draw] = {
    "generator": lambda rng, b, size: rng.laplace(0.0, b, size),
    "generator, keywords": lambda rng, b, size: rng.laplace(loc=0.0, scale=b, size=size),
    "unit times scale": lambda rng, b, size: b * rng.laplace(size=size),
    "subtracted": lambda rng, b, size: -rng.laplace(0.0, b, size),
    "RandomState": lambda rng, b, size: np.random.RandomState(rng.integers(2**31)).laplace(0.0, b, size),
    "module": lambda rng, b, size: np.random.laplace(0.0, b, size),
    "scipy": lambda rng, b, size: stats.laplace.rvs(scale=b, size=1 if size is None else size, random_state=rng),
    "scipy frozen": lambda rng, b, size: stats.laplace(scale=b).rvs(size=1 if size is None else size),
}
LAPLACE_DERIVED: dict[str, Draw] = {
    "exponential difference": lambda rng, b, size: rng.exponential(b, size) - rng.exponential(b, size),
    "standard exponentials": lambda rng, b, size: b * (rng.standard_exponential(size) - rng.standard_exponential(size)),
    "gamma difference": lambda rng, b, size: rng.gamma(1.0, b, size) - rng.gamma(1.0, b, size),
    "normal by root of exponential": lambda rng, b, size: b * rng.normal(size=size) * np.sqrt(2 * rng.exponential(size=size)),
    "sign of a coin": lambda rng, b, size: rng.exponential(b, size) * rng.choice([-1.0, 1.0], size),
    "inverse transform": _inverse,
    "python expovariate": lambda rng, b, size: _python(lambda: random.expovariate(1 / b) - random.expovariate(1 / b), size),
}
GAUSS: dict[str, Draw] = {
    "generator": lambda rng, s, size: rng.normal(0.0, s, size),
    "standard": lambda rng, s, size: s * rng.standard_normal(size),
    "module normal": lambda rng, s, size: np.random.normal(0.0, s, size),
    "module randn": lambda rng, s, size: s * (np.random.randn() if size is None else np.random.randn(size)),
    "RandomState": lambda rng, s, size: np.random.RandomState(rng.integers(2**31)).normal(0.0, s, size),
    "own generator": lambda rng, s, size: np.random.default_rng().normal(0.0, s, size),
    "spawned": lambda rng, s, size: np.random.Generator(np.random.PCG64(rng.integers(2**31))).normal(0.0, s, size),
    "scipy": lambda rng, s, size: stats.norm.rvs(scale=s, size=1 if size is None else size, random_state=rng),
    "four quarters": lambda rng, s, size: sum(rng.normal(0.0, s / 2, size) for _ in range(4)),
    "multivariate": lambda rng, s, size: rng.multivariate_normal(np.zeros(size or 1), s**2 * np.eye(size or 1)),
    "python gauss": lambda rng, s, size: _python(lambda: random.gauss(0.0, s), size),
    "python normalvariate": lambda rng, s, size: _python(lambda: random.normalvariate(0.0, s), size),
    "columns of a matrix": lambda rng, s, size: rng.normal(0.0, s, (3, size or 1))[1],
}
QUERIES: dict[str, tuple[Callable[[Any], Any], float, Any]] = {  # query, its l1 sensitivity under removal, shape
    "sum": (lambda d: clip(d).sum(), 10.0, None),
    "count above": (lambda d: float(np.sum(np.asarray(d) > 3)), 1.0, None),
    "histogram": (lambda d: np.histogram(clip(d), 5, (0, 10))[0].astype(float), 1.0, 5),
}


def _add(query: Callable[[Any], Any], draw: Draw, scale: float, size: Any) -> Callable[[Any, Any], Any]:
    return lambda d, rng: query(d) + draw(rng, scale, size)


def _drawn() -> list[Program]:
    result = []
    for query, (function, sensitivity, size) in QUERIES.items():
        for names, draws, expect in ((LAPLACE, LAPLACE, PROVED), (LAPLACE_DERIVED, LAPLACE_DERIVED, UNREFUTED)):
            for name in names:
                run = _add(function, draws[name], sensitivity, size)
                result.append(Program(name=f"{query}, Laplace by {name}", run=run, expect=expect))
        for name, draw in GAUSS.items():
            run = _add(function, draw, 2 * sensitivity, size)
            result.append(Program(name=f"{query}, normal by {name}", run=run, epsilon=None, mu=0.5))
        result.append(
            Program(
                name=f"{query}, normal by Box-Muller",
                run=_add(function, _box_muller, 2 * sensitivity, size),
                epsilon=None,
                mu=0.5,
                expect=UNREFUTED,
            )
        )
    return result


def _geometric(d: Any, rng: Any) -> Any:
    p = 1 - math.exp(-1)
    return int(np.sum(np.asarray(d) > 3)) + rng.geometric(p) - rng.geometric(p)


def _mean(d: Any, rng: Any) -> Any:
    total, number = clip(d).sum() + rng.laplace(0, 20), len(d) + rng.laplace(0, 2)
    return min(max(total / max(number, 1.0), 0.0), 10.0)


def _variance(d: Any, rng: Any) -> Any:
    x = clip(d)
    number, first = len(x) + rng.laplace(0, 3), x.sum() + rng.laplace(0, 30)
    second = (x**2).sum() + rng.laplace(0, 300)
    return max(second / max(number, 1) - (first / max(number, 1)) ** 2, 0)


def _cells(d: Any, rng: Any) -> Any:
    return {kind: float(np.sum(d == kind) + rng.laplace()) for kind in range(4)}


def _in_place(d: Any, rng: Any) -> Any:
    table = counts(d)
    table += rng.laplace(0, 1, 4)
    return table


def _into_out(d: Any, rng: Any) -> Any:
    result = np.empty(4)
    np.add(counts(d), rng.laplace(0, 1, 4), out=result)
    return result


def _filled(d: Any, rng: Any) -> Any:
    result = np.zeros(4)
    for kind in range(4):
        result[kind] = np.sum(d == kind) + rng.laplace()
    return result


def _prefix(d: Any, rng: Any) -> Any:
    return np.cumsum(counts(d) + rng.laplace(0, 1, 4))


def _synthetic(d: Any, rng: Any) -> Any:
    table = np.maximum(counts(d) + rng.laplace(0, 1, 4), 0)
    share = (table + 1e-6) / (table + 1e-6).sum()
    return rng.choice(4, 6, p=share).tolist()


def _bootstrap(d: Any, rng: Any) -> Any:
    noisy = counts(d) + rng.laplace(0, 1, 4)
    return [float(noisy[rng.integers(0, 4, 4)].mean()) for _ in range(3)]


CATEGORIES = {
    "histogram at once": lambda d, rng: counts(d) + rng.laplace(0, 1, 4),
    "histogram cell by cell": _cells,
    "histogram added in place": _in_place,
    "histogram into out": _into_out,
    "histogram filled cell by cell": _filled,
    "histogram, then prefix sums": _prefix,
    "histogram as a list": lambda d, rng: [np.sum(d == kind) + rng.laplace() for kind in range(4)],
    "histogram rounded afterwards": lambda d, rng: np.round(counts(d) + rng.laplace(0, 1, 4)).astype(int),
    "histogram, then shares": lambda d, rng: (lambda t: t / t.sum())(np.maximum(counts(d) + rng.laplace(0, 1, 4), 0.1)),
    "histogram, then the order of cells": lambda d, rng: np.argsort(counts(d) + rng.laplace(0, 1, 4)).tolist(),
    "histogram, then the largest cell": lambda d, rng: int(np.argmax(np.asarray(counts(d) + rng.laplace(0, 1, 4)))),
    "histogram, then text": lambda d, rng: json.dumps([float(c) for c in counts(d) + rng.laplace(0, 1, 4)]),
    "histogram, then synthetic records": _synthetic,
    "histogram, then a bootstrap": _bootstrap,
    "histogram stacked from two": lambda d, rng: np.concatenate(
        [counts(d)[:2] + rng.laplace(0, 1, 2), counts(d)[2:] + rng.laplace(0, 1, 2)]
    ),
    "histogram times a public matrix": lambda d, rng: np.tri(4) @ (counts(d) + rng.laplace(0, 1, 4)),
    "histogram doubled with its noise": lambda d, rng: 2 * counts(d) + 2 * rng.laplace(0, 1, 4),
    "histogram reversed": lambda d, rng: (counts(d) + rng.laplace(0, 1, 4))[::-1],
    "histogram as a table": lambda d, rng: (counts(d) + rng.laplace(0, 1, 4)).reshape(2, 2),
    "histogram with marginals of the release": lambda d, rng: (lambda t: [t, t.sum(0), t.sum(1), t.sum()])(
        counts(d).reshape(2, 2) + rng.laplace(0, 1, (2, 2))
    ),
    "histogram twice with half each": lambda d, rng: [counts(d) + rng.laplace(0, 2, 4), counts(d) + rng.laplace(0, 2, 4)],
    "mean of two releases": lambda d, rng: ((counts(d) + rng.laplace(0, 2, 4)) + (counts(d) + rng.laplace(0, 2, 4))) / 2,
    "difference of disjoint counts": lambda d, rng: (np.sum(d == 0) + rng.laplace()) - (np.sum(d == 1) + rng.laplace()),
    "public offset": lambda d, rng: counts(d) + 100 + rng.laplace(0, 1, 4),
    "noise drawn in advance": lambda d, rng: (lambda z: counts(d) + z[2])(rng.laplace(0, 1, (5, 4))),
    "noise not used": lambda d, rng: (rng.laplace(0, 1, 7), counts(d) + rng.laplace(0, 1, 4))[1],
    "noise from a list": lambda d, rng: [c + z for c, z in zip(counts(d), list(rng.laplace(0, 1, 4)), strict=True)],
    "data sorted first": lambda d, rng: counts(np.sort(d)) + rng.laplace(0, 1, 4),
    "sum by a loop": lambda d, rng: sum(1.0 for x in d if x == 2) + rng.laplace(),
    "noise first, then records one by one": lambda d, rng: sum((1.0 for x in d if x == 2), start=rng.laplace()),
    "noise more than needed": lambda d, rng: counts(d) + rng.laplace(0, 3, 4),
    "nothing but noise": lambda d, rng: rng.laplace(0, 1, 4),
    "a constant": lambda d, rng: 4,
    "draws alone": lambda d, rng: [rng.integers(0, 9), rng.normal(), rng.choice([1, 2])],
}
NUMBERS = {
    "mean from sum and count": _mean,
    "variance from three sums": _variance,
    "mean with a public count": lambda d, rng: (clip(d).sum() + rng.laplace(0, 10)) / 7,
    "centred sum": lambda d, rng: (clip(d) - 5).sum() + rng.laplace(0, 5) + 35,
    "release used twice": lambda d, rng: (lambda y: [y, y + 1, 2 * y, -y, y / 3, y * y])(clip(d).sum() + rng.laplace(0, 10)),
    "clamped afterwards": lambda d, rng: np.clip(clip(d).sum() + rng.laplace(0, 10), 0, 100),
    "largest of release and zero": lambda d, rng: max(clip(d).sum() + rng.laplace(0, 10), 0.0),
    "square root of a release": lambda d, rng: math.sqrt(abs(clip(d).sum() + rng.laplace(0, 10))),
    "logarithm of a release": lambda d, rng: math.log1p(abs(float(len(d) + rng.laplace(0, 1)))),
    "formatted release": lambda d, rng: f"{len(d) + rng.laplace(0, 1):.2f}",
    "branch on a release": lambda d, rng: "many" if len(d) + rng.laplace(0, 1) > 5 else "few",
    "two branches on one release": lambda d, rng: (lambda n: (n > 3, n > 6))(float(len(d) + rng.laplace(0, 1))),
}
BUDGETED = [
    Program(name="data shuffled first", run=lambda d, r: counts(r.permutation(d)) + r.laplace(0, 1, 4), expect=UNREFUTED),
    Program(
        name="histogram under replacement",
        run=lambda d, r: counts(d) + r.laplace(0, 2, 4),
        data="categories",
        adjacency="replace_one",
    ),
    Program(name="sum under replacement", run=lambda d, r: clip(d).sum() + r.laplace(0, 10), adjacency="replace_one"),
    Program(
        name="mean with the public count under replacement",
        run=lambda d, r: clip(d).mean() + r.laplace(0, 10 / len(d)),
        adjacency="replace_one",
    ),
    Program(
        name="noise by the public count under replacement",
        run=lambda d, r: [float(x) for x in clip(d) + r.laplace(0, 10, len(d))],
        adjacency="replace_one",
    ),
    Program(name="count by differences of geometrics", run=_geometric, expect=UNREFUTED),
    Program(name="three sums at a third each", run=lambda d, r: [clip(d).sum() + r.laplace(0, 30) for _ in range(3)]),
    Program(name="ten sums at ten", run=lambda d, r: [clip(d).sum() + r.laplace(0, 10) for _ in range(10)], epsilon=10.0),
    Program(
        name="four normal sums", run=lambda d, r: [clip(d).sum() + r.normal(0, 10) for _ in range(4)], epsilon=None, mu=2.0
    ),
    Program(
        name="normal sums of two scales",
        run=lambda d, r: [clip(d).sum() + r.normal(0, s) for s in (10 / 0.6, 10 / 0.8)],
        epsilon=None,
        mu=1.0,
    ),
    Program(
        name="ten shares",
        run=lambda d, r: sum(p.sum() + r.normal(0, 10 / math.sqrt(10)) for p in np.array_split(clip(d), 10)),
        epsilon=None,
        mu=1.0,
    ),
    Program(
        name="vector clipped by its norm",
        run=lambda d, r: _bounded(d).sum(0) + r.normal(0, 1, 3),
        data="table",
        epsilon=None,
        mu=1.0,
    ),
    Program(
        name="Laplace on a vector clipped by its l1 norm",
        run=lambda d, r: _bounded(d, 1).sum(0) + r.laplace(0, 1, 3),
        data="table",
    ),
    Program(
        name="second moments",
        run=lambda d, r: (lambda x: x.T @ x + r.normal(0, 1, (3, 3)))(_bounded(d)),
        data="table",
        epsilon=None,
        mu=1.0,
    ),
    Program(
        name="second moments, upper half mirrored",
        run=lambda d, r: _mirrored(_bounded(d), r),
        data="table",
        epsilon=None,
        mu=1.0,
    ),
    Program(
        name="normal sum with delta",
        run=lambda d, r: clip(d).sum() + r.normal(0, 10 * math.sqrt(2 * math.log(1.25e5))),
        epsilon=1.0,
        delta=1e-5,
    ),
]


def _bounded(d: Any, order: int = 2) -> Any:
    x = clip(d, -1, 1).reshape(-1, 3)
    return x / np.maximum(np.linalg.norm(x, ord=order, axis=1, keepdims=True), 1.0)


def _mirrored(x: Any, rng: Any) -> Any:
    upper = np.triu(x.T @ x + rng.normal(0, 1, (3, 3)))
    return upper + np.triu(upper, 1).T


def _rows(d: Any, rng: Any) -> Any:
    totals = dict.fromkeys("abc", 0.0)
    for row in d:
        if row["group"] in totals:
            totals[row["group"]] += min(max(row["value"], 0.0), 10.0)
    return {group: total + rng.laplace(0, 10) for group, total in totals.items()}


def _frame(d: Any, rng: Any) -> Any:
    import pandas as pd

    sums = pd.DataFrame(d).groupby("group")["value"].agg(lambda v: v.clip(0, 10).sum()).reindex(list("abc"), fill_value=0.0)
    return sums.to_numpy(float) + rng.laplace(0, 10, 3)


GROUPS = [
    *right({"group sums on public groups": _rows, "group sums by pandas, reindexed": _frame}, data="rows"),
    *right(
        {
            "words of a public list": lambda d, rng: {w: d.count(w) + rng.laplace() for w in ("ash", "birch", "cedar", "elm")},
            "length of texts": lambda d, rng: sum(min(len(w), 5) for w in d) + rng.laplace(0, 5),
            "membership of a word": lambda d, rng: sum(w == "elm" for w in d) + rng.laplace(),
        },
        data="words",
    ),
]
PROGRAMS = [*_drawn(), *right(CATEGORIES, data="categories"), *right(NUMBERS), *BUDGETED, *GROUPS]
