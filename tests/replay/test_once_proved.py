"""Programs that were once proved though they are wrong, or left open though they are right: each by the pairs that are made."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import operator
import os
import random
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import audit
from audit.core.adjacency import Adjacency
from audit.replays import decisions, ranges
from audit.replays.check import ReplayVerdict
from audit.replays.claims import ReplayClaim
from audit.replays.neighbours import make_pairs
from audit.replays.recording import NoiseRows
from audit.replays.run import Program
from tests.replay.corpus import clip

DATA = {
    "numbers": (np.array([0.9, 2.4, 8.0, 5.8, 0.9, 4.3, 1.6, 4.8]), 0.0, 10.0),
    "bits": (np.array([0.0, 1.0, 1.0, 0.0, 1.0]), 0.0, 1.0),
}
STATE: Any = None


class _Model:
    last: Any = None


class _Slots:
    __slots__ = ("raw", "value")


def _noisy(d: Any, rng: Any, total: Any = None) -> float:
    return float((clip(d).sum() if total is None else total) + rng.laplace(0, 10))


def _exact_if_all_equal(d: Any, rng: Any) -> float:
    return float(clip(d)[0]) if len(d) > 1 and np.ptp(clip(d)) == 0 else _noisy(d, rng)


def _exact_after_a_rare_release(d: Any, rng: Any) -> list[float]:
    count = float(len(d) + rng.laplace(0, 2))
    return [count, float(clip(d).sum() + (0.0 if count > 40 else rng.laplace(0, 20)))]


def _exact_after_a_rare_laplace(d: Any) -> list[Any]:
    count = float(len(d) + torch.distributions.Laplace(0.0, 2.0).sample())
    return [count, clip(d).sum() + (0.0 if count > 40 else torch.distributions.Laplace(0.0, 20.0).sample())]


def _compared_value(d: Any, rng: Any) -> Any:
    """Releases the noisy count that crossed the threshold: late crossings cost more than the plain runs show."""
    threshold = 5 + rng.laplace(0, 2)
    for i in range(8):
        count = float(np.sum(clip(d) > i) + rng.laplace(0, 4))
        if count >= threshold:
            return i, count
    return None


def _noise_after_a_release(d: Any, rng: Any) -> list[float]:
    count = float(len(d) + rng.laplace(0, 2))
    return [count, float(clip(d).sum() + rng.laplace(0, 10 if count > 12 else 20))]


def _thresholds_without_end(d: Any, rng: Any) -> list[int]:
    noise = rng.laplace(0, 2)
    return [t for t in range(8) if np.sum(clip(d) > t) + rng.laplace(0, 4) > 4 + noise]


def _clusters_from_the_first_record(d: Any, rng: Any) -> tuple[float, float]:
    x = clip(d)
    near = np.abs(x - (x[0] if len(x) else 0.0)) < np.abs(x - 5.0)
    return _noisy(d, rng, x[near].sum()), _noisy(d, rng, x[~near].sum())


def _in_class(d: Any, rng: Any) -> float:
    _Model.last = float(clip(d).sum())
    return _noisy(d, rng)


def _rebound(d: Any, rng: Any) -> float:
    global STATE  # noqa: PLW0603 (what is tested)
    STATE = float(clip(d).sum())
    return _noisy(d, rng)


def _in_slots(d: Any, rng: Any) -> Any:
    item = _Slots()
    item.raw, item.value = float(clip(d).sum()), _noisy(d, rng)
    return item


def _in_a_function(d: Any, rng: Any) -> Callable[[int], float]:
    total, value = float(clip(d).sum()), _noisy(d, rng)
    return lambda query: value if query else total


def _by_descriptor(d: Any, rng: Any) -> float:
    file = os.open("replay.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(file, str(len(d)).encode())
    os.close(file)
    return _noisy(d, rng)


def _warned(d: Any, rng: Any) -> float:
    warnings.warn(f"clipped {np.sum(np.asarray(d) > 9)} records", stacklevel=1)
    return _noisy(d, rng)


def _on_the_error_stream(d: Any, rng: Any) -> float:
    sys.stderr.write(f"{len(d)} records\n")
    return _noisy(d, rng)


def _state_of_the_generator(d: Any, rng: Any) -> tuple[str, float]:
    return json.dumps(rng.bit_generator.state, default=str), _noisy(d, rng)


def _polar(d: Any, rng: Any, second: Callable[[float], Any] = math.cos) -> list[float]:
    u, v = rng.random(), rng.random()
    radius = 20 * math.sqrt(-math.log(u))
    noise = radius * math.cos(2 * math.pi * v), radius * second(2 * math.pi * v)
    return [float(clip(d).sum() + noise[0]), float(10 * len(d) + noise[1])]


def _shared_sign(d: Any, rng: Any) -> list[float]:
    sign = random.choice([-1, 1])
    return [float(clip(d).sum() + sign * 20 * rng.exponential()), float(10 * len(d) + sign * 20 * rng.exponential())]


def _two_coins(x: Any, rng: Any, truth: float = 0.5) -> int:
    return int(x > 0.5) if rng.random() < truth else int(rng.random() < 0.5)


def _other_name_of_noise(d: Any, rng: Any) -> Any:
    noise = float(rng.laplace(0, 10))
    total = noise
    total += float(clip(d).sum())
    return total, noise


def _other_name_of_an_item(d: Any, rng: Any) -> Any:
    noise = rng.laplace(0, 10, 1).item()
    total = noise
    total += float(clip(d).sum())
    return total, noise


def _written_by(view: Callable[[Any], Any], d: Any, rng: Any) -> Any:
    out = rng.laplace(0, 0.01, (2, 2))
    for part in view(out):
        operator.iadd(part, clip(d).sum())
    return out


def _read_by_a_view(d: Any, rng: Any) -> Any:
    out = rng.laplace(0, 0.01, 3)
    view = out[:1]
    out += clip(d).sum()
    return view


def _polar_and_a_third(d: Any, rng: Any) -> list[float]:
    u, v = rng.random(), rng.random()
    radius, sine = 20 * math.sqrt(-math.log(u)), math.sin(2 * math.pi * v)
    first, second, third = radius * math.cos(2 * math.pi * v), radius * sine, sine * radius
    return [float(first), float(clip(d).sum() + second), float(10 * len(d) + third)]


def _of_a_seed(seed: Any, d: Any) -> float:
    return float(clip(d).sum() + np.random.default_rng(seed).laplace(0, 10))


def _digest(d: Any) -> int:
    return int.from_bytes(hashlib.sha256(np.asarray(d).tobytes()).digest()[:16], "big")


def _beside(d: Any, rng: Any, leaks: Any) -> tuple[float, int]:
    return _noisy(d, rng), len(d) if leaks else 0


def _seed_that_decides(d: Any, rng: Any) -> tuple[float, int]:
    seed = int(rng.integers(2**40))
    return _of_a_seed(seed, d), len(d) if seed < 100 else 0


def _raw_if_the_third_wins(place: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda d, r: len(d) if place(np.array([20.0, 0, 0]) + r.laplace(0, 2, 3)) == 2 else 0


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "the rarest place of the largest": _raw_if_the_third_wins(np.argmax),
    "the rarest order": _raw_if_the_third_wins(lambda y: np.argsort(-y)[0]),
    "the rarest of plain comparisons": _raw_if_the_third_wins(lambda y: max(range(3), key=lambda i: y[i])),
    "the rarest of plain numbers": _raw_if_the_third_wins(lambda y: (numbers := y.tolist()).index(max(numbers))),
    "the rarest of rounded numbers": _raw_if_the_third_wins(lambda y: np.argmax(np.round(y))),
    "a raw count in the third turn": lambda d, r: [len(d) if r.laplace() > 20 and i == 2 else 0 for i in range(4)],
    "half the noise from a hundred records on": lambda d, r: clip(d).sum() + r.laplace(0, 10 if len(d) < 100 else 5),
    "one value counts a thousand": lambda d, r: _noisy(d, r, clip(d).sum() + 1000 * np.any(clip(d) == 7.25)),
    "twice the sum for many high records": lambda d, r: _noisy(d, r, clip(d).sum() * (1 if np.sum(clip(d) > 8) < 3 else 2)),
    "no noise for a large sum": lambda d, r: float(clip(d).sum() + r.laplace(0, 10) * (clip(d).sum() < 60)),
    "exact if all are equal": _exact_if_all_equal,
    "exact after a rare release": _exact_after_a_rare_release,
    "more after a release": _noise_after_a_release,
    "the compared value": _compared_value,
    "thresholds without an end": _thresholds_without_end,
    "clusters from the first record": _clusters_from_the_first_record,
    "raw sum on a class": _in_class,
    "raw sum in a rebound name": _rebound,
    "raw sum in a slot": _in_slots,
    "raw sum in a returned function": _in_a_function,
    "file written by its descriptor": _by_descriptor,
    "count in a warning": _warned,
    "count on the error stream": _on_the_error_stream,
    "state of the generator": _state_of_the_generator,
    "one normal draw computed twice": _polar,
    "one sign for two draws": _shared_sign,
    "exact count in a few runs": lambda d, r: [len(d)] if r.integers(16) == 7 else [0],
    "exact count if three coins agree": lambda d, r: float(len(d)) if all(r.random() < 0.5 for _ in range(3)) else 1.0,
    "exact count in a few runs, else a response": (
        lambda d, r: [len(d)] if r.integers(16) == 7 else [_two_coins(len(d) > 4, r, 0.4)]
    ),
    "exact count with a chance of 1e-13": lambda d, r: len(d) if r.random() < 1e-13 else 0,
    "a total by another name of its noise": _other_name_of_noise,
    "a total by another name of an item": _other_name_of_an_item,
    "written by a slice": lambda d, r: _written_by(lambda out: [out[:1]], d, r),
    "written by rows": lambda d, r: _written_by(iter, d, r),
    "written by another shape": lambda d, r: _written_by(lambda out: [out.reshape(4)[:2]], d, r),
    "written, read by a slice": _read_by_a_view,
    "one normal draw, and its two coordinates": _polar_and_a_third,
    "thresholds of one draw": lambda d, r: [bool(np.sum(clip(d) > t) >= 3 + z) for z in [r.laplace(0, 1)] for t in range(6)],
    "one number of many": lambda d, r: _beside(d, r, r.integers(10**12) == 0),
    "one number of many, of Python": lambda d, r: _beside(d, r, random.randrange(10**9) == 5),
    "one of many numbers of torch": lambda d, r: _beside(d, r, torch.randint(10**9, (1,)).item() == 0),
    "a seed that decides": _seed_that_decides,
    "noise rounded, far out": lambda d, r: _beside(d, r, int(r.exponential()) > 25),
    "noise rounded, at a computed number": lambda d, r: _beside(d, r, int(r.exponential()) >= 5 * len("123456789") - 5),
    "noise rounded in Python, far out": lambda d, r: _beside(d, r, int(random.expovariate(1.0)) > 25),
    "noise rounded of other laws": lambda d, r: _beside(d, r, int(r.gumbel()) > 25 or round(r.logistic()) < -25),
    "a whole number of noise": lambda d, r: _beside(d, r, int(r.geometric(0.5)) == 30),
    "an inverse transform, far out": lambda d, r: _beside(d, r, int(-math.log(r.random())) > 30),
    "one of several, rounded": lambda d, r: _beside(d, r, np.floor(r.exponential(size=5))[3] > 20),
    "text of noise, after other noise": lambda d, r: _beside(
        d, r, len(f"{r.exponential():.0f}") > 1 and str(r.exponential())[:2] == "27"
    ),
    "beyond thirty scales": lambda d, r: _beside(d, r, r.exponential() > 35),
    "records picked by random.choices": lambda d, r: (_noisy(d, r), random.choices([*d, 0.0])),
    "exact after a rare release of torch": lambda d, r: _exact_after_a_rare_laplace(d),
    "a public sequence of seeds": lambda d, r: _of_a_seed(np.random.SeedSequence(2**127 - 1), d),
    "a seed of the data": lambda d, r: _of_a_seed(np.random.PCG64(_digest(d)), d),
}


@dataclasses.dataclass(frozen=True)
class _Answer:
    value: Any
    epsilon: float = 1.0


def _permute_and_flip(d: Any, rng: Any) -> int:
    scores = np.array([float(np.sum(clip(d) > t)) for t in (2, 5, 8)])
    return next(int(i) for i in rng.permutation(3) if rng.random() <= math.exp(0.5 * (scores[i] - scores.max())))


def _noise_of_numpy_in_tensors(d: Any, rng: Any) -> Any:
    total = torch.as_tensor(np.histogram(clip(d), 3, (0, 10))[0], dtype=torch.float32)
    return total + torch.as_tensor(rng.normal(0, 1, 3), dtype=torch.float32)


def _symmetric(d: Any, rng: Any) -> Any:
    noise = np.triu(rng.laplace(0, 4, (2, 2)))
    x = np.stack([clip(d, 0, 1), 1 - clip(d, 0, 1)], axis=1)
    return x.T @ x + (noise + noise.T - np.diag(np.diag(noise)))


RIGHT: dict[str, tuple[Callable[[Any, Any], Any], str, float]] = {
    "a float of noise": (lambda d, r: clip(d).sum() + float(r.laplace(0, 10)), "numbers", 1.0),
    "an item of noise": (
        lambda d, r: [v + r.laplace(0, 1, 1).item() for v in np.histogram(clip(d), 3, (0, 10))[0]], "numbers", 1.0,
    ),
    "in a dataclass": (lambda d, r: _Answer(_noisy(d, r)), "numbers", 1.0),
    "noise of the system": (
        lambda d, r: float(clip(d).sum() + random.SystemRandom().expovariate(0.1) - random.SystemRandom().expovariate(0.1)),
        "numbers",
        1.0,
    ),
    "noise of numpy in tensors": (_noise_of_numpy_in_tensors, "numbers", 9.0),
    "polar, both coordinates": (lambda d, r: _polar(d, r, math.sin), "numbers", 9.0),
    "responses in a loop": (
        lambda d, r: [int(x > 0.5) if r.random() < 0.75 else int(not x > 0.5) for x in d], "bits", math.log(3),
    ),
    "responses by two coins": (
        lambda d, r: [_two_coins(x, r) for x in d], "bits", math.log(3),
    ),
    "responses of four kinds": (
        lambda d, r: [int(x > 0.5) if r.random() < 5 / 9 else int(r.integers(4)) for x in d], "bits", math.log(6),
    ),
    "permute and flip": (_permute_and_flip, "numbers", 1.0),
    "a drawn seed of several numbers": (lambda d, r: _of_a_seed(r.integers(2**32, size=4), d), "numbers", 1.0),
    "bits as a seed": (lambda d, r: _of_a_seed(random.getrandbits(64), d), "numbers", 1.0),
    "whole noise by int": (
        lambda d, r: round(clip(d).sum()) + int(r.geometric(1 - math.exp(-0.1))) - int(r.geometric(1 - math.exp(-0.1))),
        "bits",
        1.0,
    ),
    "a child of a fresh seed": (lambda d, r: _of_a_seed(np.random.SeedSequence().spawn(1)[0], d), "numbers", 1.0),
    "fresh bits": (lambda d, r: _of_a_seed(np.random.PCG64(), d), "numbers", 1.0),
    "a copy altered in place": (lambda d, r: operator.iadd(r.laplace(0, 10, 1).copy(), clip(d).sum()), "numbers", 1.0),
    "symmetric noise": (_symmetric, "numbers", 1.0),
}  # fmt: skip


def _replay(run: Callable[[Any, Any], Any], kind: str, adjacency: str, **claim: float) -> Any:
    data, low, high = DATA[kind]
    return audit.replay(run, data, adjacency=adjacency, low=low, high=high, sampling_seconds=0, **claim)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_no_wrong_program_is_proved(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    claim = {"mu": 1.0} if name.startswith("one normal") else {"epsilon": 1.0}
    assert _replay(WRONG[name], "numbers", "add_remove", **claim).verdict is not ReplayVerdict.PROVED


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_proved(name: str) -> None:
    run, kind, epsilon = RIGHT[name]
    claim = {"mu": 1.0} if name.startswith(("polar", "noise of numpy")) else {"epsilon": epsilon}
    report = _replay(run, kind, "replace_one" if kind == "bits" else "add_remove", **claim)
    assert report.verdict is ReplayVerdict.PROVED, str(report)


def _leak_in_rare_outcomes(chance: float, count: int, d: Any, rng: Any) -> float:
    for _ in range(count):
        if rng.random() < chance:
            return float(len(d))
    return float(len(d) + rng.laplace(0, 1 / 0.9))


@pytest.mark.parametrize(("count", "is_proved"), [(1, True), (2, True), (3, False), (50, False)])
def test_rare_outcomes_that_leak_are_added_up_and_counted_towards_delta(count: int, is_proved: bool) -> None:
    report = audit.replay(
        lambda d, r: _leak_in_rare_outcomes(4e-6, count, d, r),
        [(np.arange(5.0), np.arange(6.0))],
        epsilon=1.0,
        delta=1e-5,
        sampling_seconds=0,
    )
    assert (report.verdict is ReplayVerdict.PROVED) == is_proved
    assert f"probability {count * 4e-6:.3g}" in report.worst.reason


def test_the_chance_of_another_outcome_is_exact_for_one_draw_or_normal_ones_and_a_bound_for_more() -> None:
    rows = NoiseRows(
        value=np.array([-5.0, 5.0, -5.0, -5.0]),
        index=np.array([[0, 0], [0, 0], [2, 3], [0, 1]]),
        weight=np.array([[2.0, 0.0], [-2.0, 0.0], [0.6, 0.8], [1.0, 1.0]]),
    )
    chances = ranges.other_chances(["laplace", "laplace", "normal", "normal"], rows, np.array([0, 1, 0, 0]))
    assert chances[:3] == pytest.approx([math.exp(-2.5) / 2, math.exp(-2.5) / 2, stats.norm.sf(5.0)])
    assert chances[3] >= math.exp(-5.0) * (2 + 5.0) / 4  # of the sum of two Laplace draws
    assert ranges.other_chances(["derived"] * 4, rows, np.array([0, 1, 0, 0])).tolist() == [1.0] * 4


def test_responses_that_lie_too_seldom_are_refuted_by_the_law_of_all_decisions() -> None:
    report = audit.replay(
        lambda d, r: [int(x > 0.5) if r.random() < 0.8 else int(not x > 0.5) for x in d],
        [(np.array([0.0, 1.0]), np.array([1.0, 1.0]))],
        epsilon=1.0,
        adjacency="replace_one",
        sampling_seconds=0,
    )
    assert report.verdict is ReplayVerdict.REFUTED
    assert report.worst.loss == pytest.approx(math.log(4), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "leak",
    [
        lambda d, r: [len(d)] if r.integers(16) == 7 else [_two_coins(len(d) > 4, r)],
        lambda d, r: [_two_coins(x, r, 0.95 if i else 0.5) for i in [r.random() < 0.08] for x in d],
        lambda d, r: [_two_coins(x, r) for x in d] + ([float(np.sum(d))] if r.random() < 0.02 else []),
    ],
)
def test_what_a_few_runs_leak_is_in_the_law_or_in_a_forced_path(leak: Callable[[Any, Any], Any]) -> None:
    data = np.arange(5.0) > 2
    for records in (1, 5):
        pair = data[:records].astype(float), np.r_[1.0, data[1:records]]
        report = audit.replay(
            leak, [pair, (data.astype(float), data[1:].astype(float))], epsilon=math.log(3), sampling_seconds=0
        )
        assert report.verdict is not ReplayVerdict.PROVED, str(report)


@pytest.mark.slow
def test_responses_beside_a_choice_that_the_data_sizes_raise_nothing() -> None:
    data = DATA["bits"][0]
    pair = data, data[:4]
    report = audit.replay(
        lambda d, r: [[_two_coins(x, r) for x in d], int(r.integers(len(d) + 1))], [pair], epsilon=1.0, sampling_seconds=0
    )
    assert report.verdict is not ReplayVerdict.PROVED


@pytest.mark.slow
def test_the_law_of_a_slow_program_is_given_up_in_time() -> None:
    def slow(d: Any, rng: Any) -> list[int]:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        return [_two_coins(x, rng) for x in d]

    start = time.process_time()
    data = np.zeros(150)
    decisions.decided_loss(Program(slow), (data, np.r_[1.0, data[1:]]), ReplayClaim(epsilon=math.log(3)))
    assert time.process_time() - start < 20


def _responses(rare: float, d: Any, rng: Any) -> list[int]:
    """Return a response of each record, one of them as it is if a further coin is rare."""
    answers = []
    for i, x in enumerate(d):
        truth = int(x > 0.5)
        told = truth if rng.random() < 0.75 else 1 - truth
        answers.append(truth if i == 93 and rng.random() < rare else told)
    return answers


@pytest.mark.slow
@pytest.mark.parametrize(("rare", "is_proved"), [(0.0, True), (1e-7, False)])
def test_a_hundred_responses_are_followed_wherever_the_record_is(rare: float, is_proved: bool) -> None:
    data, claim = np.arange(100) % 3.0 > 0, ReplayClaim(epsilon=math.log(3))
    other = data.copy()
    other[93] = not data[93]
    start = time.process_time()
    bound = decisions.decided_loss(Program(lambda d, r: _responses(rare, d, r)), (data, other), claim)
    assert (bound is not None and bound <= claim.epsilon + 1e-9) is is_proved
    assert time.process_time() - start < 12


def test_a_slow_program_runs_about_three_times_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    count, run = [0], Program._run

    def counted(program: Program, *args: Any) -> Any:
        count[0] += 1
        return run(program, *args)

    def two_clips(d: Any, rng: Any) -> Any:
        high = 2.0 if np.sum(clip(d) > 1) + rng.laplace(0, 4) > 2 else 1.0
        return clip(d, 0, high).sum() + rng.laplace(0, 4 * high)

    monkeypatch.setattr(Program, "_run", counted)
    monkeypatch.setattr(Program, "is_slow", True)
    pairs = [pair[1:] for pair in make_pairs(DATA["numbers"][0], Adjacency.ADD_REMOVE)]
    assert audit.replay(two_clips, pairs, epsilon=1.0).verdict is ReplayVerdict.PROVED
    assert count[0] < 3 * len(pairs)
