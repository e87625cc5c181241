"""Wrong programs: each breaks the claim that it makes, on one of its pairs at least, by a known defect of published code."""

# ruff: noqa: NPY002, PLC3002  programs as users write them: old generators, lambdas called at once
from __future__ import annotations

import logging
import math
import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.replay.corpus import FOUND, REFUTED, Program, clip, counts, wrong

SEEN: list[float] = []
TOTALS = {"sum": 0.0}


def _unique_classes(d: Any, rng: Any) -> Any:
    kinds = np.unique(d)
    return [float(np.sum(d == kind) + rng.laplace()) for kind in kinds]


def _unique_keys(d: Any, rng: Any) -> Any:
    return {float(kind): float(np.sum(d == kind) + rng.laplace()) for kind in sorted(set(np.asarray(d).tolist()))}


def _early_return(d: Any, rng: Any) -> Any:
    if len(d) < 4:
        return 0.0
    return clip(d).sum() + rng.laplace(0, 10)


def _cells_above_zero(d: Any, rng: Any) -> Any:
    return {kind: c + rng.laplace() if c else 0.0 for kind, c in enumerate(counts(d))}


def _in_global(d: Any, rng: Any) -> Any:
    SEEN.append(float(clip(d).sum()))
    return clip(d).sum() + rng.laplace(0, 10)


def _in_global_table(d: Any, rng: Any) -> Any:
    TOTALS["sum"] = float(clip(d).sum())
    return clip(d).sum() + rng.laplace(0, 10)


def _in_closure() -> Callable[[Any, Any], Any]:
    state = {"largest": 0.0}

    def program(d: Any, rng: Any) -> Any:
        state["largest"] = float(clip(d).max(initial=0.0))
        return len(d) + rng.laplace(0, 1)

    return program


class _Attribute:
    """A callable that keeps the raw sum."""

    def __init__(self) -> None:
        self.total = 0.0

    def __call__(self, d: Any, rng: Any) -> Any:
        self.total = float(clip(d).sum())
        return self.total + rng.laplace(0, 10)


def _on_function(d: Any, rng: Any) -> Any:
    _on_function.last = len(d)  # type: ignore[attr-defined]
    return len(d) + rng.laplace(0, 1)


def _in_file(d: Any, rng: Any) -> Any:
    with open(os.path.join(tempfile.gettempdir(), "corpus-wrong-program.txt"), "w") as file:
        file.write(str(clip(d).sum()))
    return clip(d).sum() + rng.laplace(0, 10)


def _in_log(d: Any, rng: Any) -> Any:
    logging.getLogger("corpus").warning("sum %.1f", clip(d).sum())
    return clip(d).sum() + rng.laplace(0, 10)


def _printed(d: Any, rng: Any) -> Any:
    print("records:", len(d))
    return len(d) + rng.laplace(0, 1)


def _in_environment(d: Any, rng: Any) -> Any:
    os.environ["CORPUS_RECORDS"] = str(len(d))
    return len(d) + rng.laplace(0, 1)


def _exception(d: Any, rng: Any) -> Any:
    if np.any(np.asarray(d) > 100):
        raise ValueError("a value above 100")
    return clip(d).sum() + rng.laplace(0, 10)


def _exception_text(d: Any, rng: Any) -> Any:
    clip(d).sum() + rng.laplace(0, 10)
    raise ValueError(f"only {len(d)} records")


def _one_draw_twice(d: Any, rng: Any) -> Any:
    z = rng.laplace(0, 20)
    return [clip(d).sum() + z, 10.0 * len(d) + z]


def _noise_too(d: Any, rng: Any) -> Any:
    z = rng.laplace(0, 10)
    return [clip(d).sum() + z, z]


def _noise_in_place_and_returned(d: Any, rng: Any) -> Any:
    z = rng.laplace(0, 1, 4)
    return {"table": counts(d) + z, "noise": z.tolist()}


def _draws_per_record(d: Any, rng: Any) -> Any:
    for _ in d:
        rng.random()
    return [len(d) + rng.laplace(0, 1), rng.normal()]


def _seeded_by_data(d: Any, rng: Any) -> Any:
    own = np.random.default_rng(int(clip(d).sum() * 10))
    return clip(d).sum() + own.laplace(0, 10)


def _seeded_by_count(d: Any, rng: Any) -> Any:
    random.seed(len(d))
    return clip(d).sum() + 10 * (random.expovariate(1) - random.expovariate(1))


def _fixed_seed(d: Any, rng: Any) -> Any:
    return clip(d).sum() + np.random.default_rng(0).laplace(0, 10)


def _fixed_module_seed(d: Any, rng: Any) -> Any:
    np.random.seed(7)
    return clip(d).sum() + np.random.laplace(0, 10)


def _same_seed_twice(d: Any, rng: Any) -> Any:
    seed = int(rng.integers(2**31))
    first, second = np.random.default_rng(seed), np.random.default_rng(seed)
    return [clip(d).sum() + first.laplace(0, 20), 10.0 * len(d) + second.laplace(0, 20)]


def _centred(d: Any, rng: Any) -> Any:
    z = rng.normal(0, 2, 4)
    return counts(d) + z - z.mean()


def _on_a_sphere(d: Any, rng: Any) -> Any:
    z = rng.normal(0, 1, 4)
    return counts(d) + 2 * z / np.linalg.norm(z) * 2


def _clamped_noise(d: Any, rng: Any) -> Any:
    return clip(d).sum() + np.clip(rng.laplace(0, 10), -20, 20)


def _one_sided(d: Any, rng: Any) -> Any:
    return clip(d).sum() + abs(rng.laplace(0, 10))


def _missing_directions(d: Any, rng: Any) -> Any:
    z = rng.normal(0, 2, 4)
    z[3] = 0.0
    return counts(d) + z


def _rolled(d: Any, rng: Any) -> Any:
    z = rng.normal(0, 2, 4)
    return counts(d) + (z - np.roll(z, 1)) / math.sqrt(2)


def _beside(d: Any, rng: Any) -> Any:
    y = clip(d).sum() + rng.laplace(0, 10)
    return [y, y - clip(d).sum()]


def _residual(d: Any, rng: Any) -> Any:
    y = counts(d) + rng.laplace(0, 1, 4)
    return {"table": y, "error": float(np.abs(np.asarray(y) - counts(d)).max())}


def _order(d: Any, rng: Any) -> Any:
    return {k: v + rng.laplace() for k, v in sorted(enumerate(counts(d)), key=lambda item: -item[1])}


def _order_of_pairs(d: Any, rng: Any) -> Any:
    return [(k, v + rng.laplace()) for k, v in sorted(enumerate(counts(d)), key=lambda item: -item[1])]


def _clip_by_data(d: Any, rng: Any) -> Any:
    bound = np.quantile(clip(d), 0.9) if len(d) else 1.0
    return clip(d, 0, bound).sum() + rng.laplace(0, bound + 1e-3)


def _clip_by_data_public_scale(d: Any, rng: Any) -> Any:
    bound = float(np.max(clip(d), initial=1.0))
    return (clip(d) / bound).sum() + rng.laplace(0, 0.5)


def _mean_by_count(d: Any, rng: Any) -> Any:
    return (clip(d).sum() + rng.laplace(0, 10)) / max(len(d), 1)


def _mean_noised(d: Any, rng: Any) -> Any:
    return clip(d).mean() + rng.laplace(0, 10 / max(len(d), 1)) if len(d) else rng.laplace(0, 10)


def _stop_by_data(d: Any, rng: Any) -> Any:
    released = []
    for k in range(4):
        released.append(float(len(d) + rng.laplace(0, 4)))
        if len(d) <= k + 2:
            break
    return released


def _sparse_vector_without_threshold_noise(d: Any, rng: Any) -> Any:
    c = [np.sum(clip(d) >= t) for t in (0, 2, 4, 6, 8)] * 4
    return [bool(v + rng.laplace(0, 2) > 3) for v in c]


def _sparse_vector_value(d: Any, rng: Any) -> Any:
    threshold = 3 + rng.laplace(0, 2)
    for c in (float(np.sum(clip(d) >= t)) for t in (0, 2, 4)):
        if c + rng.laplace(0, 4) > threshold:
            return c
    return None


def _sparse_vector_without_query_noise(d: Any, rng: Any) -> Any:
    threshold = 3 + rng.laplace(0, 1)
    return [bool(np.sum(clip(d) >= t) > threshold) for t in (0, 2, 4, 6, 8)]


def _descent(
    clipped: bool = True, sigma: float = 2.0, divide: bool = False, raw_loss: bool = False
) -> Callable[[Any, Any], Any]:
    def program(d: Any, rng: Any) -> Any:
        x, w, losses = clip(d, -1, 1).reshape(-1, 3), np.zeros(2), []
        for _ in range(4):
            g = (x[:, :2] @ w - x[:, 2] - 1)[:, None] * x[:, :2]
            if clipped:
                g = g / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1.0)
            w = w - 0.1 * (g.sum(0) + rng.normal(0, sigma, 2)) / (max(len(x), 1) if divide else 5)
            losses.append(float(((x[:, :2] @ w - x[:, 2]) ** 2).sum()))
        return (w, losses) if raw_loss else w

    return program


def _best_epoch(d: Any, rng: Any) -> Any:
    x, w, best = clip(d, -1, 1).reshape(-1, 3), np.zeros(2), (math.inf, np.zeros(2))
    for _ in range(4):
        g = (x[:, :2] @ w - x[:, 2])[:, None] * x[:, :2]
        g = g / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1.0)
        w = np.asarray(w - 0.5 * (g.sum(0) + rng.normal(0, 2.0, 2)))
        loss = float(((x[:, :2] @ w - x[:, 2]) ** 2).sum())
        best = min(best, (loss, w), key=lambda pair: pair[0])
    return best[1]


def _standardised(d: Any, rng: Any) -> Any:
    x = clip(d)
    return ((x - x.mean()) / (x.std() + 1e-3) if len(x) else x).clip(-3, 3)[:2].sum() + rng.laplace(0, 3)


def _rejection(d: Any, rng: Any) -> Any:
    while True:
        y = clip(d).sum() + rng.laplace(0, 10)
        if y >= clip(d).max(initial=0.0):
            return y


CATEGORIES = {
    "classes of the data": _unique_classes,
    "keys of the data": _unique_keys,
    "only cells above zero": _cells_above_zero,
    "one cell without noise": lambda d, r: [*(counts(d)[:3] + r.laplace(0, 1, 3)), counts(d)[3]],
    "total exact beside the histogram": lambda d, r: [counts(d) + r.laplace(0, 1, 4), len(d)],
    "largest of exact counts": lambda d, r: int(np.argmax(counts(d))),
    "order of exact counts in a dictionary": _order,
    "order of exact counts in a list": _order_of_pairs,
    "noise centred": _centred,
    "noise on a sphere": _on_a_sphere,
    "a direction without noise": _missing_directions,
    "noise less its neighbour": _rolled,
    "noise returned beside": _noise_in_place_and_returned,
    "error of the release returned": _residual,
    "exact histogram chosen by a coin": lambda d, r: counts(d) if r.random() < 0.5 else counts(d) + r.laplace(0, 1, 4),
    "noise of the sum for every cell": lambda d, r: counts(d) + r.laplace(0, 1),
    "half the noise": lambda d, r: counts(d) + r.laplace(0, 0.5, 4),
    "histogram twice": lambda d, r: [counts(d) + r.laplace(0, 1, 4), counts(d) + r.laplace(0, 1, 4)],
    "histogram and its total for one budget": lambda d, r: [counts(d) + r.laplace(0, 1, 4), counts(d).sum() + r.laplace(0, 1)],
    "budget divided by the cells as if squares": lambda d, r: [counts(d) + r.laplace(0, math.sqrt(2), 4) for _ in range(2)],
    "rounded before a shift of noise": lambda d, r: np.round(counts(d) * 3) + r.laplace(0, 1, 4),
}
NUMBERS = {
    "noise by the range of the data": lambda d, r: clip(d).sum() + r.laplace(0, max(np.ptp(clip(d)), 0.1) if len(d) else 10.0),
    "exact count": lambda d, r: len(d),
    "exact count beside": lambda d, r: [clip(d).sum() + r.laplace(0, 10), len(d)],
    "divided by the private count": _mean_by_count,
    "mean with noise by the private count": _mean_noised,
    "early return for few records": _early_return,
    "data as the location": lambda d, r: r.laplace(clip(d).sum(), 1.0),
    "data as the location of scipy": lambda d, r: float(np.asarray(r.normal(loc=clip(d).max(initial=0.0), scale=1e-3))),
    "one draw for two releases": _one_draw_twice,
    "sum twice": lambda d, r: [clip(d).sum() + r.laplace(0, 10) for _ in range(2)],
    "not clipped": lambda d, r: np.nan_to_num(np.asarray(d, float)).sum() + r.laplace(0, 10),
    "one side clipped": lambda d, r: np.minimum(np.nan_to_num(np.asarray(d, float)), 10).sum() + r.laplace(0, 10),
    "no number passes the clip": lambda d, r: np.clip(d, 0, 10).sum() + r.laplace(0, 10),
    "clipped after the noise": lambda d, r: np.clip(np.nan_to_num(np.asarray(d, float)).sum() + r.laplace(0, 10), 0, 1e9),
    "sum in a global list": _in_global,
    "sum in a global table": _in_global_table,
    "largest in a closure": _in_closure(),
    "sum in an attribute": _Attribute(),
    "count on the function": _on_function,
    "sum in a file": _in_file,
    "sum in a log line": _in_log,
    "count printed": _printed,
    "count in the environment": _in_environment,
    "exception by the data": _exception,
    "exception with the count": _exception_text,
    "noise returned too": _noise_too,
    "release less the data": _beside,
    "draws per record": _draws_per_record,
    "seed from the sum": _seeded_by_data,
    "seed from the count": _seeded_by_count,
    "fixed seed": _fixed_seed,
    "fixed seed of the module": _fixed_module_seed,
    "one seed for two generators": _same_seed_twice,
    "noise clamped": _clamped_noise,
    "noise of one sign": _one_sided,
    "clip norm by a quantile": _clip_by_data,
    "divided by the largest": _clip_by_data_public_scale,
    "standardised by the data": _standardised,
    "stopping by the data": _stop_by_data,
    "noise of scale zero": lambda d, r: clip(d).sum() + r.laplace(0, 0.0),
    "scale divided twice": lambda d, r: clip(d).sum() + r.laplace(0, 10 / 2),
    "value of the sparse vector": _sparse_vector_value,
    "noisy max with exact value": lambda d, r: (lambda c: float(c[int(np.argmax(c + r.laplace(0, 2, 2)))]))(
        np.array([np.sum(clip(d) > 5), np.sum(clip(d) <= 5)], float)
    ),
    "exponential mechanism at ten times": lambda d, r: int(
        r.choice(2, p=(lambda w: w / w.sum())(np.exp([5.0 * len(d), 25.0])))
    ),
    "choice among the records": lambda d, r: float(r.choice(clip(d))) if len(d) else 0.0,
    "uniform noise": lambda d, r: clip(d).sum() + r.uniform(-10, 10),
    "triangular noise": lambda d, r: clip(d).sum() + r.triangular(-20, 0, 20),
    "twelve uniforms": lambda d, r: clip(d).sum() + 10 * (r.random(12).sum() - 6),
    "integer noise on tenths": lambda d, r: clip(d).sum() + round(float(r.laplace(0, 100))),
    "rows as they are": lambda d, r: np.asarray(d).tolist(),
    "a sample of the records": lambda d, r: clip(d)[r.random(len(d)) < 0.5].tolist(),
    "maximum": lambda d, r: float(clip(d).max(initial=0.0)),
    "noise multiplied": lambda d, r: clip(d).sum() * (1 + r.laplace(0, 1)),
}
MIXED = [
    *wrong({"sparse vector without threshold noise": _sparse_vector_without_threshold_noise}),
    *wrong({"sparse vector without query noise": _sparse_vector_without_query_noise}, expect=FOUND),
    *wrong({"drawn again until above the largest": _rejection}, expect=FOUND),
    Program(
        name="variance as the deviation",
        run=lambda d, r: clip(d).sum() + r.normal(0, math.sqrt(10)),
        epsilon=None,
        mu=1.0,
        expect=REFUTED,
    ),
    Program(
        name="normal noise, twice",
        run=lambda d, r: [clip(d).sum() + r.normal(0, 10) for _ in range(2)],
        epsilon=None,
        mu=1.0,
        expect=REFUTED,
    ),
    Program(
        name="histogram under replacement at removal's scale",
        run=lambda d, r: counts(d) + r.laplace(0, 1, 4),
        data="categories",
        adjacency="replace_one",
        expect=REFUTED,
    ),
    Program(name="normal noise for pure privacy", run=lambda d, r: clip(d).sum() + r.normal(0, 10), expect=FOUND),
    Program(
        name="response that lies too little",
        run=lambda d, r: [int(r.binomial(1, 0.9 if x else 0.1)) for x in d],
        data="bits",
        epsilon=math.log(3.0),
        adjacency="replace_one",
        expect=REFUTED,
    ),
    *[
        Program(name=name, run=run, data="table", epsilon=None, mu=1.0, expect=REFUTED)
        for name, run in {
            "descent without a clip": _descent(clipped=False, sigma=0.5),
            "descent at half the noise": _descent(sigma=1.0),
            "descent divided by the private count": _descent(divide=True),
            "descent with exact losses": _descent(raw_loss=True),
            "descent, best epoch": _best_epoch,
        }.items()
    ],
    *wrong(
        {
            "group sums on groups of the data": lambda d, r: {
                g: sum(min(max(x["value"], 0), 10) for x in d if x["group"] == g) + r.laplace(0, 10)
                for g in sorted({x["group"] for x in d})
            },
            "group sums not clipped": lambda d, r: {
                g: sum(x["value"] for x in d if x["group"] == g) + r.laplace(0, 10) for g in "abc"
            },
        },
        data="rows",
    ),
    *wrong(
        {
            "words of the data": lambda d, r: {w: d.count(w) + r.laplace() for w in sorted(set(d))},
            "longest word": lambda d, r: max(len(w) for w in d) + r.laplace(0, 1) if d else r.laplace(0, 1),
            "index of words": lambda d, r: {w: i for i, w in enumerate(sorted(set(d)))},
        },
        data="words",
    ),
]
# no single pair of runs proves these wrong: the loss is infinite by a part that varies, or by a state that few look at
UNPROVED = (
    "exponential mechanism at ten times",
    "noise on a sphere",
    "error of the release returned",
    "exact histogram chosen by a coin",
    "clipped after the noise",
    "largest in a closure",
    "exception by the data",
    "exception with the count",
    "draws per record",
    "seed from the sum",
    "seed from the count",
)
PROGRAMS = [
    replace(program, expect=FOUND) if program.name in UNPROVED else program
    for program in (*wrong(CATEGORIES, data="categories"), *wrong(NUMBERS), *MIXED)
]
