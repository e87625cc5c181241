"""Right programs of several parts: trees, matrix mechanisms, counters, learning, and post-processing with a memory."""

from __future__ import annotations

import io
import logging
import math
from typing import Any

import numpy as np

from tests.replay.corpus import UNREFUTED, Program, clip, counts, right

_CACHE: dict[int, Any] = {}


def _octants(d: Any) -> Any:
    return np.histogram(clip(d), 8, (0, 10))[0].astype(float)


def _tree(levels: int) -> Any:
    """Return the matrix of a binary tree over 2**levels leaves, one row per node."""
    leaves = 2**levels
    return np.concatenate([np.kron(np.eye(2**k), np.ones(leaves // 2**k)) for k in range(levels + 1)])


TREE = _tree(3)
ROOT = np.array([[math.comb(2 * (i - j), i - j) / 4 ** (i - j) if i >= j else 0.0 for j in range(8)] for i in range(8)])
ROOT_COLUMN = float(np.linalg.norm(ROOT, axis=0).max())


def _tree_ranges(d: Any, rng: Any) -> Any:
    nodes = TREE @ _octants(d) + rng.laplace(0, 4, len(TREE))
    return [nodes[0], nodes[1], nodes[3] + nodes[7], nodes[2] + nodes[4]]


def _tree_consistent(d: Any, rng: Any) -> Any:
    return np.linalg.pinv(TREE) @ (TREE @ _octants(d) + rng.laplace(0, 4, len(TREE)))


def _tree_prefix(d: Any, rng: Any) -> Any:
    noise = [rng.normal(0, 2 * 2, 2**k) for k in range(4)]
    leaves, sums = _octants(d), []
    for t in range(1, 9):
        total, start = 0.0, 0
        for k in range(3, -1, -1):
            if t & (1 << k):
                total = total + leaves[start : start + (1 << k)].sum() + noise[3 - k][start >> k]
                start += 1 << k
        sums.append(total)
    return np.stack(sums)


def _counter(d: Any, rng: Any) -> Any:
    """Return running counts by a binary counter; its nodes are kept while they are whole."""
    sums: list[Any] = [0.0] * 4
    noisy: list[Any] = [0.0] * 4
    out = []
    for t, leaf in enumerate(_octants(d), start=1):
        low = (t & -t).bit_length() - 1
        sums[low] = sum(sums[:low]) + leaf
        for k in range(low):
            sums[k] = noisy[k] = 0.0
        noisy[low] = sums[low] + rng.laplace(0, 4)
        out.append(sum(noisy[k] for k in range(4) if t & (1 << k)))
    return out


def _root_factors(d: Any, rng: Any) -> Any:
    return ROOT @ (ROOT @ _octants(d) + rng.normal(0, ROOT_COLUMN, 8))


def _root_noise_mapped(d: Any, rng: Any) -> Any:
    return np.cumsum(_octants(d)) + ROOT @ rng.normal(0, ROOT_COLUMN, 8)


def _correlated(d: Any, rng: Any) -> Any:
    """Return prefix sums of values with noise that is partly taken back a step later (anti-correlated noise)."""
    z = rng.normal(0, 1 / 0.5, 8)
    scale = 1 / math.sqrt(1 - 0.25)
    return _octants(d) + scale * (z - 0.5 * np.concatenate([[0.0], z[:-1]]))


def _adaptive_bins(d: Any, rng: Any) -> Any:
    coarse = np.histogram(clip(d), 2, (0, 10))[0] + rng.laplace(0, 2, 2)
    low = 0.0 if coarse[0] > coarse[1] else 5.0
    return [float(x) for x in np.histogram(clip(d), 4, (low, low + 5))[0] + rng.laplace(0, 2, 4)]


def _two_means(d: Any, rng: Any) -> Any:
    first = min(max(float(clip(d).sum() + rng.laplace(0, 20)) / 5, 0.0), 10.0)
    return [first, np.sum(clip(d) > first) + rng.laplace(0, 2)]


def _binary_search(d: Any, rng: Any) -> Any:
    low, high = 0.0, 10.0
    for _ in range(4):
        middle = (low + high) / 2
        if np.sum(clip(d) < middle) - np.sum(clip(d) >= middle) + rng.laplace(0, 4) > 0:
            high = middle
        else:
            low = middle
    return middle


def _unit(d: Any) -> Any:
    x = clip(d, -1, 1).reshape(-1, 3)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)


def _gradients(w: Any, x: Any) -> Any:
    g = (x[:, :2] @ w - x[:, 2])[:, None] * x[:, :2]
    return g / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1.0)


def _descend(rate: float = 0.1, momentum: float = 0.0, adaptive: bool = False, steps: int = 4) -> Any:
    def program(d: Any, rng: Any) -> Any:
        x, w = _unit(d), np.zeros(2)
        velocity, square, mean = np.zeros(2), np.zeros(2), np.zeros(2)
        for _ in range(steps):
            g = (_gradients(w, x).sum(0) + rng.normal(0, 2.0, 2)) / 5
            square, velocity = 0.9 * square + 0.1 * g**2, momentum * velocity + g
            w = w - rate * (velocity / (np.sqrt(square) + 1e-3) if adaptive else velocity)
            mean = mean + w / steps
        return {"last": w, "mean": mean}

    return program


def _descend_random_start(d: Any, rng: Any) -> Any:
    w = rng.normal(0, 0.1, 2)
    for _ in range(4):
        g = _gradients(w, _unit(d)).sum(0)
        g += rng.normal(0, 2.0, 2)
        w -= 0.1 * g
    return w


def _descend_in_pieces(d: Any, rng: Any) -> Any:
    w = np.zeros(2)
    for _ in range(4):
        total = np.zeros(2)
        for piece in np.array_split(_unit(d), 3):
            total += _gradients(w, piece).sum(0)
        w = w - 0.1 * (total + 2.0 * rng.standard_normal(2)) / 5
    return w


def _descend_sampled(d: Any, rng: Any) -> Any:
    x, w = _unit(d), np.zeros(2)
    for _ in range(4):
        batch = x[rng.random(len(x)) < 0.5]
        w = w - 0.1 * (_gradients(w, batch).sum(0) + rng.normal(0, 2.0, 2)) / 5
    return w


def _follow_the_leader(d: Any, rng: Any) -> Any:
    """Return weights by DP-FTRL: one pass, each third of the records by its place, noise of the tree on the prefix sums."""
    x, w, total = _unit(d), np.zeros(2), np.zeros(2)
    noise = rng.normal(0, math.sqrt(2) * 2, (3, 2))
    pieces, out = [x[i::3] for i in range(3)], []
    for t, piece in enumerate(pieces):
        total = total + _gradients(w, piece).sum(0)
        noisy = total + (noise[0] if t == 0 else noise[1] if t == 1 else noise[1] + noise[2])
        w = -0.1 * np.asarray(noisy)
        out.append(w)
    return out


def _regression(d: Any, rng: Any) -> Any:
    x = _unit(d)
    a = x[:, :2].T @ x[:, :2] + rng.normal(0, 2, (2, 2))
    b = x[:, :2].T @ x[:, 2] + rng.normal(0, 2, 2)
    return np.linalg.solve(np.asarray(a).T @ np.asarray(a) + np.eye(2), np.asarray(b))


def _components(d: Any, rng: Any) -> Any:
    x = _unit(d)
    noise = np.triu(rng.normal(0, 1, (3, 3)))
    return np.linalg.eigvalsh(np.asarray(x.T @ x + noise + np.triu(noise, 1).T))


def _kmeans(d: Any, rng: Any) -> Any:
    x, centres = clip(d), np.array([2.0, 8.0])
    for _ in range(2):
        nearest = np.argmin(abs(x[:, None] - centres[None]), axis=1)
        for k in range(2):
            total = x[nearest == k].sum() + rng.laplace(0, 40)
            number = np.sum(nearest == k) + rng.laplace(0, 4)
            centres[k] = min(max(float(total) / max(float(number), 1.0), 0.0), 10.0)
    return centres


def _bayes(d: Any, rng: Any) -> Any:
    x = clip(d, -1, 1).reshape(-1, 3)
    model = {}
    for label in (False, True):
        part = x[(x[:, 2] > 0) == label]
        model[label] = (len(part) + rng.laplace(0, 3), [part[:, j].sum() + rng.laplace(0, 3) for j in range(2)])
    return model


def _stump(d: Any, rng: Any) -> Any:
    x = clip(d, -1, 1).reshape(-1, 3)
    gain = np.array([abs(np.sum((x[:, j] > 0) == (x[:, 2] > 0)) - len(x) / 2) for j in range(2)])
    weight = np.exp(0.5 * (gain - gain.max()) / 1)
    j = int(rng.choice(2, p=weight / weight.sum()))
    leaves = [
        [np.sum(((x[:, j] > 0) == side) & ((x[:, 2] > 0) == label)) + rng.laplace(0, 2) for label in (0, 1)] for side in (0, 1)
    ]
    return j, [int(np.argmax([float(v) for v in leaf])) for leaf in leaves]


def _multiplicative_weights(d: Any, rng: Any) -> Any:
    truth, model = counts(d), np.full(4, 1.0)
    for query in ([1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0]):
        answer = float(np.dot(query, truth) + rng.laplace(0, 3))
        model = model * np.exp(np.array(query) * np.clip(answer - np.dot(query, model), -5, 5) / 10)
    return model / model.sum()


def _logged(d: Any, rng: Any) -> Any:
    y = len(d) + rng.laplace(0, 1)
    logging.getLogger("corpus").debug("released %.3f", y)
    print(f"released {y:.3f}", file=io.StringIO())
    return y


def _cached(d: Any, rng: Any) -> Any:
    scale = _CACHE.setdefault(1, 1.0)
    return len(d) + rng.laplace(0, scale)


class _Counter:
    """A class with attributes that hold releases alone."""

    def __init__(self, rng: Any) -> None:
        self.rng, self.answers, self.spent = rng, [], 0.0

    def ask(self, value: float, scale: float) -> float:
        self.spent += 1 / scale
        self.answers.append(value + self.rng.laplace(0, scale))
        return self.answers[-1]


def _object(d: Any, rng: Any) -> Any:
    counter = _Counter(rng)
    return [counter.ask(float(len(d)), 2), counter.ask(float(np.sum(clip(d) > 5)), 2), counter.spent]


def _refuses(d: Any, rng: Any) -> Any:
    y = float(len(d) + rng.laplace(0, 1))
    if y < 2:
        raise ValueError("too few records, by a noisy count")
    return y


NUMBERS = {
    "tree, ranges": _tree_ranges,
    "tree, made consistent": _tree_consistent,
    "counter over time": _counter,
    "adaptive bins": _adaptive_bins,
    "mean, then a count about it": _two_means,
    "binary search for the median": _binary_search,
    "k-means in two rounds": _kmeans,
    "release logged": _logged,
    "public constant in a cache": _cached,
    "object that keeps releases": _object,
    "exception by a release": _refuses,
    "inverse of the covariance of two releases": lambda d, r: np.linalg.inv(
        np.diag([abs(float(len(d) + r.laplace(0, 1))) + 1] * 2)
    ),
}
GAUSSIAN_NUMBERS = [
    Program(name="tree, prefix sums by shared nodes", run=_tree_prefix, epsilon=None, mu=0.5),
    Program(name="square root of the prefix matrix", run=_root_factors, epsilon=None, mu=1.0),
    Program(name="noise by the square root of the prefix matrix", run=_root_noise_mapped, epsilon=None, mu=1.0),
    Program(name="anti-correlated noise", run=_correlated, epsilon=None, mu=1.0),
]
GAUSSIAN_TABLES = [
    Program(name=name, run=run, data="table", epsilon=None, mu=1.0)
    for name, run in {
        "descent": _descend(),
        "descent with momentum": _descend(momentum=0.9),
        "descent with Adam": _descend(adaptive=True),
        "descent from a random start": _descend_random_start,
        "descent in pieces": _descend_in_pieces,
        "descent for one step": _descend(steps=1),
        "regression by sufficient statistics": _regression,
        "eigenvalues of a noisy covariance": _components,
    }.items()
]
MIXED = [
    Program(
        name="descent on samples, not amplified", run=_descend_sampled, data="table", epsilon=None, mu=1.0, expect=UNREFUTED
    ),
    Program(
        name="descent by noisy prefix sums", run=_follow_the_leader, data="table", epsilon=None, mu=1.0, adjacency="replace_one"
    ),
]
PROGRAMS = [
    *right(NUMBERS),
    *GAUSSIAN_NUMBERS,
    *GAUSSIAN_TABLES,
    *MIXED,
    *right({"naive Bayes": _bayes, "a stump": _stump}, data="table"),
    *right({"multiplicative weights": _multiplicative_weights}, data="categories"),
]
