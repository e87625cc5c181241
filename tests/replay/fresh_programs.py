"""Programs that were written after the replay, right and wrong in pairs of one kind: uses without a rule made for them."""

# ruff: noqa: NPY002, PLC3002  programs as users write them: old generators, lambdas called at once
from __future__ import annotations

import functools
import logging
import math
import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pandas as pd
import torch

from tests.replay.corpus import FOUND, UNREFUTED, Program, clip, right, wrong

LOG = logging.getLogger("fresh")


class _Budget:
    """Counts its spending; a query that is too dear is refused."""

    def __init__(self, epsilon: float) -> None:
        self.left = epsilon

    def laplace(self, value: float, sensitivity: float, epsilon: float, rng: Any) -> Any:
        if epsilon > self.left + 1e-12:
            raise RuntimeError("the budget is spent")
        self.left -= epsilon
        return value + rng.laplace(0, sensitivity / epsilon)


def _budgeted(d: Any, rng: Any, shares: tuple[float, ...] = (0.5, 0.5), epsilon: float = 1.0) -> Any:
    budget, answers = _Budget(epsilon), []
    for share in shares:
        try:
            answers.append(budget.laplace(clip(d).sum(), 10, share, rng))
        except RuntimeError as error:
            answers.append(str(error))
    return answers


def _bisect(d: Any, rng: Any, share: float = 0.2) -> Any:
    low, high = 0.0, 10.0
    for _ in range(5):
        middle = (low + high) / 2
        if np.sum(clip(d) < middle) - np.sum(clip(d) >= middle) + rng.laplace(0, 1 / share) > 0:
            high = middle
        else:
            low = middle
    return low, high


def _sparse(d: Any, rng: Any, again: float = 2.0, value: bool = False) -> Any:
    threshold = 2 + rng.laplace(0, 2)
    for i, t in enumerate((9, 6, 3, 0)):
        count = float(np.sum(clip(d) >= t))
        if count + rng.laplace(0, again * 2) >= threshold:
            return (i, count) if value else i
    return -1


def _test_then_release(d: Any, rng: Any, noise: float = 2.0) -> Any:
    """Propose, test, release: the distance to the next data set with another answer is tested with noise."""
    count = int(np.sum(clip(d) > 5))
    distance = abs(count - 2.5) - 0.5
    return bool(count > 2) if distance + rng.laplace(0, noise) > 40 else None


def _means(d: Any, rng: Any, public_start: bool = True, noisy_count: bool = True) -> Any:
    x = clip(d)
    centres = np.array([2.0, 8.0]) if public_start else np.sort(np.append(x, [2.0, 8.0])[:2])
    for _ in range(2):
        near = np.abs(x[:, None] - np.asarray(centres)).argmin(1) if len(x) else np.zeros(0, int)
        new = []
        for k in range(2):
            total = x[near == k].sum() + rng.laplace(0, 40)
            count = np.sum(near == k) + (rng.laplace(0, 4) if noisy_count else 0)
            new.append(float(np.clip(total / np.maximum(count, 1), 0, 10)))
        centres = np.array(new)
    return centres


def _tree(d: Any, rng: Any, levels: int = 3) -> Any:
    leaves = np.histogram(clip(d), 4, (0, 10))[0].astype(float)
    nodes = [leaves.reshape(2**k, -1).sum(1) + rng.laplace(0, levels, 2**k) for k in range(3)]
    return [np.asarray(level).tolist() for level in nodes]


def _geometric(d: Any, rng: Any, epsilon: float = 1.0) -> int:
    p = 1 - math.exp(-epsilon)
    return int(len(d) + rng.geometric(p) - rng.geometric(p))


def _frame(d: Any, rng: Any, key: Any = None) -> Any:
    frame = pd.DataFrame({"value": clip(d), "bin": (clip(d) // 5).clip(0, 1)})
    sums = frame.groupby("bin")["value"].sum()
    return {str(k): float(sums.get(k, 0.0)) + rng.laplace(0, 10) for k in (key or (lambda s: (0.0, 1.0)))(sums)}


@functools.cache
def _scale(epsilon: float) -> float:
    return 10 / epsilon


_CACHE: dict[Any, float] = {}


def _cached_raw(d: Any, rng: Any) -> Any:
    key = "sum"
    _CACHE[key] = float(clip(d).sum())
    return _CACHE[key] + rng.laplace(0, 10)


def _logged(d: Any, rng: Any, raw: bool = False) -> Any:
    total = clip(d).sum() + rng.laplace(0, 10)
    LOG.info("released %s", clip(d).sum() if raw else float(total))
    return float(total)


def _stopped(d: Any, rng: Any, raw: bool = False) -> Any:
    result: list[float] = []
    for _ in range(4):
        result.append(float(np.sum(clip(d) > 5) + rng.laplace(0, 4)))
        if (np.sum(clip(d) > 5) if raw else result[-1]) > 2:
            break
    return result


def _torch_mean(d: Any, rng: Any, divide: bool = False) -> Any:
    x = torch.as_tensor(clip(d, 0, 1))
    total = x.sum() + torch.normal(0.0, 1.0, (1,))[0]
    return (total / max(len(x), 1) if divide else total / 5).item()


def _torch_in_place(d: Any, rng: Any, twice: bool = False) -> Any:
    state = torch.zeros(3)
    x = torch.as_tensor(clip(d, -1, 1), dtype=torch.float32).reshape(-1, 3)
    for _ in range(3):
        rows = x / x.norm(dim=1, keepdim=True).clamp(min=1.0)
        state.add_(rows.sum(0), alpha=0.5).add_(torch.randn(3), alpha=0.5 * math.sqrt(3) * (0.5 if twice else 1.0))
    return state.tolist()


def _python_tally(d: Any, rng: Any, seen: bool = False) -> Any:
    tally: Counter[float] = Counter(np.asarray(d).tolist())
    noise: defaultdict[float, float] = defaultdict(float)
    for kind in sorted(tally) if seen else range(4):
        noise[float(kind)] = random.expovariate(1) - random.expovariate(1)
    return {kind: tally[kind] + z for kind, z in noise.items()}


def _exponential(d: Any, rng: Any, factor: float = 0.5) -> int:
    utility = np.array([-abs(np.sum(clip(d) < t) - np.sum(clip(d) > t)) for t in (2, 5, 8)], float)
    weights = np.exp(factor * (utility - utility.max()))
    return int(rng.choice(3, p=weights / weights.sum()))


def _noisy_max(d: Any, rng: Any, scale: float = 2.0) -> int:
    c = [np.sum(clip(d) >= t) + rng.exponential(scale) for t in (0, 3, 6)]
    return int(np.argmax(c))


def _shuffled(d: Any, rng: Any, keep: float = 0.75) -> Any:
    bits = [int(x) if rng.random() < keep else 1 - int(x) for x in np.nan_to_num(np.asarray(d))]
    rng.shuffle(bits)
    return bits


def _prefix(d: Any, rng: Any, reuse: bool = False) -> Any:
    """Continual counting: running sums with noise of a root, a public length of 4."""
    c, z = np.histogram(clip(d), 4, (0, 10))[0].astype(float), rng.normal(0, 2, 4)
    return np.cumsum(c) + (np.cumsum(np.repeat(z[:1], 4)) * 0.1 if reuse else np.cumsum(z))


def _laplace_before(d: Any, rng: Any, read: bool = False) -> Any:
    z = rng.laplace(0, 10)
    total = clip(d).sum()
    return (total + z, bool(z > 0)) if read else total + z


def _perturbed_weights(d: Any, rng: Any, sigma: float = 1.0) -> Any:
    x = clip(d, -1, 1).reshape(-1, 3)
    weights = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
    return weights.sum(0) + sigma * rng.standard_normal(3)


def _rounded(d: Any, rng: Any, before: bool = False) -> Any:
    total = clip(d).sum()
    return round(float(total)) + rng.laplace(0, 10 / 3) if before else round(float(total + rng.laplace(0, 10)))


def _quantile_tree(d: Any, rng: Any, total: bool = False) -> Any:
    cells = np.histogram(clip(d), 5, (0, 10))[0] + rng.laplace(0, 1, 5)
    mass = np.cumsum(np.maximum(np.asarray(cells), 0))
    return float(np.searchsorted(mass, (len(d) if total else mass[-1]) / 2))


def _split_budget(d: Any, rng: Any, weight: float = 1.0) -> Any:
    even, odd = clip(d)[clip(d) < 5], clip(d)[clip(d) >= 5]  # disjoint: each record is in one of both
    return [even.sum() + weight * rng.laplace(0, 10), odd.sum() + weight * rng.laplace(0, 10)]


def _local(d: Any, rng: Any, scale: float = 10.0) -> Any:
    return sum(clip(x) + rng.laplace(0, scale) for x in d) if len(d) else 0.0


def _sampled_then_count(d: Any, rng: Any, scale: float = 1.0) -> Any:
    mask = rng.random(len(d)) < 0.5
    return np.sum(mask) + rng.laplace(0, scale)


RIGHT_NUMBERS = {
    "fresh: budget in halves": _budgeted,
    "fresh: budget that refuses": lambda d, r: _budgeted(d, r, (0.6, 0.6, 0.4)),
    "fresh: median by bisection": _bisect,
    "fresh: sparse vector from above": _sparse,
    "fresh: k-means from public centres": _means,
    "fresh: tree by levels": _tree,
    "fresh: geometric noise": _geometric,
    "fresh: sums of groups of pandas": lambda d, r: dict(_frame(d, r).items()),
    "fresh: scale from a cache": lambda d, r: clip(d).sum() + r.laplace(0, _scale(1.0)),
    "fresh: release in the log": _logged,
    "fresh: stops by a release": _stopped,
    "fresh: exponential mechanism of a median": _exponential,
    "fresh: noisy max with exponential noise": _noisy_max,
    "fresh: noise drawn before the data are read": _laplace_before,
    "fresh: rounded after the noise": _rounded,
    "fresh: quantile of a noisy histogram": _quantile_tree,
    "fresh: two disjoint parts": _split_budget,
    "fresh: clipped after the noise": lambda d, r: np.clip(clip(d).sum() + r.laplace(0, 10), 0, 50),
    "fresh: old generator": lambda d, r: np.random.RandomState(None).laplace(clip(d).sum(), 10),
    "fresh: noise of the module": lambda d, r: clip(d).sum() + np.random.laplace(scale=10.0),
    "fresh: mean of two halves of a release": lambda d, r: (lambda y: (y + y) / 2)(clip(d).sum() + r.laplace(0, 10)),
    "fresh: sign of a release": lambda d, r: int(np.sign(clip(d).sum() - 20 + r.laplace(0, 10))),
    "fresh: text of a release": lambda d, r: f"about {clip(d).sum() + r.laplace(0, 10):.1f}",
    "fresh: vector in place": lambda d, r: (lambda v: (v.__iadd__(np.histogram(clip(d), 3, (0, 10))[0]), v[::-1].copy())[1])(
        r.laplace(0, 1, 3)
    ),
}
RIGHT = [
    *right(RIGHT_NUMBERS),
    *right({"fresh: propose, test, release": _test_then_release}, delta=1e-3, expect=UNREFUTED),
    *right({"fresh: tally of python": _python_tally}, data="categories"),
    *right({"fresh: shuffled responses": _shuffled}, data="bits", adjacency="replace_one", epsilon=1.1, expect=UNREFUTED),
    *[
        Program(name=name, run=run, data=data, epsilon=None, mu=mu)
        for name, run, data, mu in (
            ("fresh: mean of torch by a public size", _torch_mean, "numbers", 1.0),
            ("fresh: three rounds of torch in place", _torch_in_place, "table", 1.0),
            ("fresh: running sums", _prefix, "numbers", 0.5),
            ("fresh: perturbed sum of vectors", _perturbed_weights, "table", 1.0),
        )
    ],
    *right({"fresh: noise for each record": _local}, adjacency="replace_one"),
]
WRONG_NUMBERS = {
    "fresh: budget that never refuses": lambda d, r: _budgeted(d, r, (0.6, 0.6), 2.0),
    "fresh: bisection at the whole budget each time": lambda d, r: _bisect(d, r, 1.0),
    "fresh: sparse vector with the exact count": lambda d, r: _sparse(d, r, value=True),
    "fresh: sparse vector with a tenth of the noise": lambda d, r: _sparse(d, r, again=0.1),
    "fresh: k-means from the first records": lambda d, r: _means(d, r, public_start=False),
    "fresh: k-means by exact counts": lambda d, r: _means(d, r, noisy_count=False),
    "fresh: tree at one level's noise": lambda d, r: _tree(d, r, 1),
    "fresh: geometric noise of twice the budget": lambda d, r: _geometric(d, r, 2.0),
    "fresh: groups that pandas finds": lambda d, r: _frame(d, r, key=lambda sums: sums.index),
    "fresh: raw sum in a cache": _cached_raw,
    "fresh: raw sum in the log": lambda d, r: _logged(d, r, raw=True),
    "fresh: stops by the raw count": lambda d, r: _stopped(d, r, raw=True),
    "fresh: exponential mechanism at four times": lambda d, r: _exponential(d, r, 2.0),
    "fresh: noisy max at a quarter of the noise": lambda d, r: _noisy_max(d, r, 0.25),
    "fresh: sign of the noise returned": lambda d, r: _laplace_before(d, r, read=True),
    "fresh: rounded to thirds before the noise": lambda d, r: 3 * _rounded(clip(d) / 3, r, before=True),
    "fresh: median by the exact count": lambda d, r: _quantile_tree(d, r, total=True),
    "fresh: two parts with all records": lambda d, r: [
        clip(d).sum() + r.laplace(0, 10),
        clip(d).max(initial=0) + r.laplace(0, 10),
    ],
    "fresh: half of the sum once more": lambda d, r: (clip(d).sum() + r.laplace(0, 10)) + 0.5 * clip(d).sum(),
    "fresh: old generator of a seed": lambda d, r: np.random.RandomState(11).laplace(clip(d).sum(), 10),
    "fresh: truth with one half": lambda d, r: clip(d).sum() + (r.laplace(0, 10) if r.random() < 0.5 else 0.0),
    "fresh: sign of the raw sum": lambda d, r: (clip(d).sum() + r.laplace(0, 10), bool(clip(d).sum() > 20)),
    "fresh: text with the count": lambda d, r: f"{len(d)} records, about {clip(d).sum() + r.laplace(0, 10):.1f}",
    "fresh: unit noise of normal law, pure": lambda d, r: clip(d).sum() + 10 * r.standard_normal(),
    "fresh: dropped noise for small counts": lambda d, r: len(d) + (r.laplace(0, 1) if len(d) > 2 else 0.0),
    "fresh: sampled count with half the noise": lambda d, r: _sampled_then_count(d, r, 0.4),
}
WRONG = [
    *wrong(WRONG_NUMBERS, expect=FOUND),
    *wrong({"fresh: tally of what was seen": lambda d, r: _python_tally(d, r, seen=True)}, data="categories", expect=FOUND),
    *wrong({"fresh: shuffled truths": lambda d, r: _shuffled(d, r, 1.0)}, data="bits", adjacency="replace_one", expect=FOUND),
    *[
        Program(name=name, run=run, data=data, epsilon=None, mu=mu, expect=FOUND)
        for name, run, data, mu in (
            ("fresh: mean of torch by the private size", lambda d, r: _torch_mean(d, r, divide=True), "numbers", 1.0),
            ("fresh: three rounds of torch at half the noise", lambda d, r: _torch_in_place(d, r, twice=True), "table", 1.0),
            ("fresh: running sums of one draw", lambda d, r: _prefix(d, r, reuse=True), "numbers", 0.5),
            ("fresh: vectors at half the noise", lambda d, r: _perturbed_weights(d, r, 0.5), "table", 1.0),
        )
    ],
    *wrong({"fresh: noise for each record at half": lambda d, r: _local(d, r, 5.0)}, adjacency="replace_one", expect=FOUND),
]
