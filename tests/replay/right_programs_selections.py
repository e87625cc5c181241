"""Right programs that release less than their noisy numbers: selections, thresholds, coins, samples, stopping."""

# ruff: noqa: NPY002, RUF046  programs as users write them: old generators, lambdas called at once
from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from tests.replay.corpus import UNREFUTED, Program, clip, right


def _thresholds(d: Any) -> Any:
    """Return five overlapping counts, each of which one record moves by at most 1."""
    return np.array([np.sum(clip(d) >= t) for t in (0, 2, 4, 6, 8)], float)


def _softmax(utility: Any, epsilon: float) -> Any:
    weight = np.exp(epsilon * (utility - np.max(utility)))
    return weight / weight.sum()


def _median_utility(d: Any) -> Any:
    x = clip(d)
    return np.array([-abs(np.sum(x < t) - np.sum(x >= t)) / 2 for t in range(11)], float)


def _inverse_choice(d: Any, rng: Any) -> Any:
    return int(np.searchsorted(np.cumsum(_softmax(_thresholds(d), 0.5)), rng.random()))


def _sparse_vector(d: Any, rng: Any) -> Any:
    threshold = 3 + rng.laplace(0, 2)
    for i, count in enumerate(_thresholds(d)):
        if count + rng.laplace(0, 4) > threshold:
            return i
    return None


def _sparse_vector_turned(d: Any, rng: Any) -> Any:
    threshold = 3 + rng.laplace(0, 2)
    answers = []
    for count in _thresholds(d):
        if threshold <= count + rng.laplace(0, 4):
            return [*answers, True]
        answers.append(False)
    return answers


def _sparse_vector_noise_alone(d: Any, rng: Any) -> Any:
    rho = rng.laplace(0, 2)
    for i, count in enumerate(_thresholds(d)):
        if rng.laplace(0, 4) > 3 + rho - count:
            return i
    return None


def _sparse_vector_below(d: Any, rng: Any) -> Any:
    rho = rng.laplace(0, 2)
    return next((i for i, count in enumerate(_thresholds(d)) if count - 2 + rng.laplace(0, 4) < rho), None)


def _sparse_then_value(d: Any, rng: Any) -> Any:
    i = _sparse_vector(d, rng)
    return None if i is None else (i, _thresholds(d)[i] + rng.laplace(0, 1))


def _tournament(d: Any, rng: Any) -> Any:
    best, top = -1, -math.inf
    for i, count in enumerate(_thresholds(d)):
        noisy = count + rng.laplace(0, 2)
        if noisy > top:
            best, top = i, noisy
    return best


def _permute_and_flip(d: Any, rng: Any) -> Any:
    utility = _thresholds(d)
    for i in rng.permutation(5):
        if rng.random() < math.exp(0.5 * (utility[i] - utility.max())):
            return int(i)
    return -1


def _private_selection(d: Any, rng: Any) -> Any:
    candidates = [int(i) for i in rng.integers(0, 5, rng.geometric(0.5))]
    return max((float(_thresholds(d)[i] + rng.laplace(0, 3)), i) for i in candidates)


def _stopping(d: Any, rng: Any) -> Any:
    released = []
    for _ in range(4):
        released.append(float(len(d) + rng.laplace(0, 4)))
        if released[-1] > 5:
            break
    return released


def _stopping_by_event(d: Any, rng: Any) -> Any:
    for i in range(4):
        if len(d) + rng.laplace(0, 4) > 5:
            return i
    return 4


def _clip_then_sum(d: Any, rng: Any) -> Any:
    bound = min(max(float(_thresholds(d)[2] + rng.laplace(0, 2)), 1.0), 10.0)
    return clip(d, 0, bound).sum() + rng.laplace(0, 2 * bound)


def _stability_histogram(d: Any, rng: Any) -> Any:
    kinds, number = np.unique(np.asarray(d), return_counts=True)
    noisy = number + rng.laplace(0, 1, len(number))
    return {float(k): float(v) for k, v in zip(kinds, noisy, strict=True) if v > 1 + math.log(1 / (2 * 1e-3))}


def _propose_test_release(d: Any, rng: Any) -> Any:
    x = np.sort(clip(d))
    middle = len(x) // 2
    distance = sum(1 for k in range(1, middle) if x[middle + k] - x[middle - k] < 1.0) if len(x) > 2 else 0
    if distance + rng.laplace(0, 2) <= math.log(1 / 1e-3) * 2:
        return None
    return float(x[middle] + rng.laplace(0, 2.0))


def _smooth_sensitivity(d: Any, rng: Any) -> Any:
    x, beta = np.concatenate([[0.0], np.sort(clip(d)), [10.0]]), 1 / 6
    m, n = len(x) // 2, len(x)
    smooth = max(
        math.exp(-beta * k) * max(x[min(m + t, n - 1)] - x[max(m + t - k - 1, 0)] for t in range(k + 2)) for k in range(n)
    )
    return x[m] + 6 * smooth * rng.standard_cauchy()


def _blocks(d: Any, rng: Any) -> Any:
    means = [clip(d[i::3]).mean() if len(d[i::3]) else 0.0 for i in range(3)]
    return float(np.mean(means) + rng.laplace(0, 10 / 3))


def _blocks_median(d: Any, rng: Any) -> Any:
    means = np.array([clip(d[i::3]).mean() if len(d[i::3]) else 0.0 for i in range(3)])
    utility = np.array([-abs(np.sum(means < t) - np.sum(means >= t)) / 2 for t in range(11)])
    return int(rng.choice(11, p=_softmax(utility, 0.5)))


def _votes(d: Any, rng: Any) -> Any:
    votes = np.bincount([int(clip(d[i::5]).sum() > 5) for i in range(5)], minlength=2)
    return int(np.argmax(votes + rng.laplace(0, 2, 2)))


def _response(p: float) -> Any:
    return lambda d, rng: np.where(rng.random(len(d)) < p, np.asarray(d), 1 - np.asarray(d)).tolist()


def _sampled(d: Any, rng: Any) -> Any:
    x = clip(d)
    return x[rng.random(len(x)) < 0.5].sum() + rng.laplace(0, 10)


def _sampled_by_loop(d: Any, rng: Any) -> Any:
    return sum(float(v) for v in clip(d) if rng.random() < 0.3) + rng.laplace(0, 10)


AMPLIFIED = math.log1p(0.5 * (math.e - 1))
ODDS = math.log(3.0)

SELECTIONS = {
    "noisy max over overlapping counts": lambda d, r: int(np.argmax(_thresholds(d) + r.laplace(0, 1, 5))),
    "noisy max, twice the noise": lambda d, r: int(np.argmax(_thresholds(d) + r.laplace(0, 2, 5))),
    "noisy min": lambda d, r: int(np.argmin(_thresholds(d) + r.laplace(0, 2, 5))),
    "noisy max of a list": lambda d, r: int(np.argmax([c + r.laplace(0, 2) for c in _thresholds(d)])),
    "noisy max by a running best": _tournament,
    "noisy max with exponential noise": lambda d, r: int(np.argmax(_thresholds(d) + r.exponential(2, 5))),
    "Gumbel max": lambda d, r: int(np.argmax(0.5 * _thresholds(d) + r.gumbel(0, 1, 5))),
    "Gumbel max by a scale": lambda d, r: int(np.argmax(_thresholds(d) + r.gumbel(0, 2, 5))),
    "noisy max of negated losses": lambda d, r: int(np.argmax(-(len(d) - _thresholds(d)) + r.laplace(0, 2, 5))),
    "two largest by peeling": lambda d, r: [
        int(np.argmax(_thresholds(d)[m] + r.laplace(0, 4, len(m)))) for m in ([0, 1, 2, 3, 4], [0, 2, 4])
    ],
    "noisy max under a name": lambda d, r: "abcde"[int(np.argmax(_thresholds(d) + r.laplace(0, 2, 5)))],
    "sparse vector": _sparse_vector,
    "sparse vector, threshold first": _sparse_vector_turned,
    "sparse vector, noise alone on a side": _sparse_vector_noise_alone,
    "sparse vector, below": _sparse_vector_below,
    "threshold by an event": lambda d, r: bool(len(d) + r.laplace(0, 1) > 4),
    "threshold, noise on the other side": lambda d, r: bool(len(d) > 4 + r.laplace(0, 1)),
    "threshold of a difference": lambda d, r: bool(r.laplace(0, 1) > 4 - len(d)),
    "sign of a noisy sum": lambda d, r: float(np.sign(clip(d, -5, 5).sum() + r.laplace(0, 5))),
    "noisy sum rounded to a grid": lambda d, r: int(round(float(clip(d).sum() + r.laplace(0, 10)) / 5)),
    "largest of two noisy counts": lambda d, r: max(
        np.sum(clip(d) > 2) + r.laplace(0, 2), np.sum(clip(d) <= 2) + r.laplace(0, 2)
    ),
    "stopping by a release": _stopping,
    "stopping by an event": _stopping_by_event,
}
CHOICES = {
    "exponential mechanism by choice": lambda d, r: int(r.choice(5, p=_softmax(_thresholds(d), 0.5))),
    "exponential mechanism by choice of names": lambda d, r: str(r.choice(list("abcde"), p=_softmax(_thresholds(d), 0.5))),
    "exponential mechanism, monotone": lambda d, r: int(r.choice(5, p=_softmax(_thresholds(d), 1.0))),
    "exponential mechanism by module": lambda d, r: int(np.random.choice(5, p=_softmax(_thresholds(d), 0.5))),
    "exponential mechanism by RandomState": lambda d, r: int(
        np.random.RandomState(r.integers(2**31)).choice(5, p=_softmax(_thresholds(d), 0.5))
    ),
    "median by the exponential mechanism": lambda d, r: int(r.choice(11, p=_softmax(_median_utility(d), 1.0))),
    "quantile by the exponential mechanism": lambda d, r: int(
        r.choice(5, p=_softmax(-abs(_thresholds(d) - 0.3 * len(d)), 0.5))
    ),
    "two choices at half": lambda d, r: [int(r.choice(5, p=_softmax(_thresholds(d), 0.25))) for _ in range(2)],
    "choice, then a normal start": lambda d, r: [r.choice([1.0, 5.0], p=_softmax(_thresholds(d)[:2], 0.5)), r.normal()],
}
CHOICES_FOLLOWED_OR_NOT = {
    "Gumbel max by uniforms": lambda d, r: int(np.argmax(0.5 * _thresholds(d) - np.log(-np.log(r.random(5))))),
    "exponential mechanism by the inverse": _inverse_choice,
    "exponential mechanism by random.choices": lambda d, r: random.choices(
        range(5), weights=list(_softmax(_thresholds(d), 0.5))
    )[0],
    "exponential mechanism by multinomial": lambda d, r: int(np.argmax(r.multinomial(1, _softmax(_thresholds(d), 0.5)))),
    "private selection": _private_selection,
    "permute and flip": _permute_and_flip,
}
BITS = {
    "response by uniforms": _response(0.75),
    "response by binomial": lambda d, r: [int(r.binomial(1, 0.75 if x else 0.25)) for x in d],
    "response by choice": lambda d, r: [int(r.choice(2, p=[0.25, 0.75] if x else [0.75, 0.25])) for x in d],
    "response by a loop": lambda d, r: [int(x) if r.random() < 0.75 else 1 - int(x) for x in d],
    "response by python's random": lambda d, r: [int(x) if random.random() < 0.75 else 1 - int(x) for x in d],
    "response by two coins": lambda d, r: [int(x) if r.random() < 0.5 else int(r.integers(2)) for x in d],
    "response by xor": lambda d, r: (np.asarray(d, int) ^ (r.random(len(d)) < 0.25)).tolist(),
    "response, then the debiased mean": lambda d, r: (np.mean(np.asarray(_response(0.75)(d, r))) - 0.25) / 0.5,
}
MIXED = [
    Program(name="sparse vector, then its value", run=_sparse_then_value, epsilon=2.0),
    Program(name="clip by a noisy count", run=_clip_then_sum),
    Program(name="sample and aggregate", run=_blocks, adjacency="replace_one"),
    Program(name="sample and aggregate by the median", run=_blocks_median, adjacency="replace_one"),
    Program(name="votes of five teachers", run=_votes, adjacency="replace_one"),
    Program(name="stability histogram", run=_stability_histogram, data="categories", delta=1e-3, expect=UNREFUTED),
    Program(
        name="propose, test, release",
        run=_propose_test_release,
        epsilon=1.0,
        delta=1e-3,
        adjacency="replace_one",
        expect=UNREFUTED,
    ),
    Program(
        name="smooth sensitivity of the median", run=_smooth_sensitivity, epsilon=1.5, adjacency="replace_one", expect=UNREFUTED
    ),
    Program(name="Poisson sample, not amplified", run=_sampled, expect=UNREFUTED),
    Program(name="Poisson sample, amplified", run=_sampled, epsilon=AMPLIFIED, expect=UNREFUTED),
    Program(name="Poisson sample by a loop", run=_sampled_by_loop, expect=UNREFUTED),
    Program(
        name="sum of a random half under replacement",
        run=lambda d, r: r.choice(clip(d), (len(d) + 1) // 2, replace=False).sum() + r.laplace(0, 10),
        adjacency="replace_one",
        expect=UNREFUTED,
    ),
]
PROGRAMS = [
    *right(SELECTIONS),
    *right(CHOICES),
    *right(CHOICES_FOLLOWED_OR_NOT, expect=UNREFUTED),
    *right(BITS, data="bits", epsilon=ODDS, adjacency="replace_one", expect=UNREFUTED),
    *MIXED,
]
