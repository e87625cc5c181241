"""Programs that leak by other ways than their result, or on paths that are seldom taken: none is proved."""

from __future__ import annotations

import atexit
import contextvars
import copy
import functools
import json
import logging
import os
import pickle
import random
import sqlite3
import subprocess
import sys
import threading
import types
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from audit.replays.check import PairResult, ReplayVerdict, check_pair
from audit.replays.claims import ReplayClaim
from audit.replays.run import Program
from tests.replay.corpus import clip

PAIR = (np.array([0.9, 2.4, 8.0, 5.8, 1.6]), np.array([0.9, 2.4, 8.0, 5.8]))
CONTEXT: contextvars.ContextVar[float] = contextvars.ContextVar("CONTEXT")
DATABASE = sqlite3.connect(":memory:", check_same_thread=False)
DATABASE.execute("create table t(x real)")
LOG, LOCK = logging.getLogger("channels"), threading.Lock()


def _sum(d: Any) -> float:
    return float(clip(d).sum())


def _noisy(d: Any, rng: Any) -> float:
    return float(clip(d).sum() + rng.laplace(0, 10))


def _coroutine() -> Any:
    total = 0.0
    while True:
        total = yield total


RUNNING = _coroutine()
next(RUNNING)


@functools.lru_cache
def _cached(x: float) -> float:
    return 10 * x


class _Pickled:
    __slots__ = ("raw",)

    def __init__(self, raw: float) -> None:
        self.raw = raw

    def __reduce__(self) -> Any:
        return _Pickled, (0.0,)


class _Mechanism:
    """A global object that is called, counts its calls and holds a lock."""

    def __init__(self) -> None:
        self.calls, self.lock = 0, threading.Lock()

    def __call__(self, value: float, rng: Any) -> float:
        self.calls += 1
        return float(value + rng.laplace(0, 10))


MECHANISM = _Mechanism()


def _constant(x: float) -> Callable[[], float]:
    return lambda: x


def _error_with_a_cause(d: Any) -> Exception:
    try:
        raise KeyError(_sum(d))
    except KeyError as cause:
        error = ValueError("hidden")
        error.__cause__ = cause.with_traceback(None)
    return error


def _frame(d: Any) -> pd.DataFrame:
    frame = pd.DataFrame({"x": [1.0]})
    frame.attrs["raw"] = _sum(d)
    return frame


def _tensor(d: Any) -> torch.Tensor:
    weight = torch.ones(1, requires_grad=True)
    (weight * _sum(d)).sum().backward()
    return weight


CHANNELS: dict[str, Callable[[Any], Any]] = {
    "method of a dictionary": lambda d: {"raw": _sum(d)}.get,
    "generator that goes on": lambda d: RUNNING.send(_sum(d)) and None,
    "folder": lambda d: os.makedirs(f"folder {len(d)}", exist_ok=True),
    "environment of C": lambda d: os.putenv("RAW", str(_sum(d))),
    "descriptor": lambda d: os.write(1, f"{len(d)} records\n".encode()) and None,
    "first stream": lambda d: sys.__stdout__.write(f"{len(d)} records\n") and None,
    "process": lambda d: subprocess.run(["true", str(len(d))], check=True).returncode,
    "cause of an error": _error_with_a_cause,
    "cache": lambda d: _cached(_sum(d)) and None,
    "view of a dictionary": lambda d: types.MappingProxyType({"raw": _sum(d)}),
    "default of a dictionary": lambda d: defaultdict(functools.partial(max, _sum(d))),
    "slots beside a reduction": lambda d: _Pickled(_sum(d)),
    "variable of a context": lambda d: CONTEXT.set(_sum(d)) and None,
    "database": lambda d: DATABASE.execute("insert into t values (?)", (_sum(d),)) and None,
    "arguments": lambda d: sys.argv.append(str(_sum(d))),
    "function in a library": lambda d: setattr(json, "raw", _constant(_sum(d))),
    "handling of errors": lambda d: np.seterr(over="raise" if len(d) % 2 else "ignore") and None,
    "callback at the end": lambda d: atexit.register(functools.partial(max, _sum(d))) and None,
    "attributes of a table": _frame,
    "gradient": _tensor,
}


def _lookup(d: Any, rng: Any) -> float:
    table = [0.0] * 500
    table[321] = _sum(d)
    return table[int(rng.integers(500))]


def _after_a_count(d: Any, rng: Any) -> list[float]:
    count = float(len(d) + rng.laplace(0, 2))
    return [count, _sum(d) if count < -40 else float(_sum(d) + rng.laplace(0, 20))]


def _raw_if(happens: Callable[[Any], Any]) -> Callable[[Any, Any], list[float]]:
    return lambda d, rng: [_sum(d)] if happens(rng) else [_noisy(d, rng)]


SELDOM: dict[str, Callable[[Any, Any], Any]] = {
    "one of 1,000": _raw_if(lambda rng: rng.integers(1000) == 7),
    "one of 5,000 by a remainder": _raw_if(lambda rng: rng.integers(5000) % 4999 == 4998),
    "small uniform": _raw_if(lambda rng: rng.random() < 1e-3),
    "large exponential": _raw_if(lambda rng: rng.exponential() > 15),
    "all of ten coins": _raw_if(lambda rng: all(rng.integers(2) for _ in range(10))),
    "none of twelve": _raw_if(lambda rng: not (rng.random(12) < 0.5).any()),
    "six sixes": _raw_if(lambda rng: all(rng.integers(6) == 5 for _ in range(6))),
    "unlikely choice": _raw_if(lambda rng: rng.choice(["a", "b"], p=[0.9999, 0.0001]) == "b"),
    "number of Python": _raw_if(lambda rng: random.randint(1, 2000) == 1234),
    "small within small": _raw_if(lambda rng: rng.random() < 0.01 and rng.random() < 0.01),
    "narrow interval": _raw_if(lambda rng: 0.5 < rng.random() < 0.5001),
    "place in an order": _raw_if(lambda rng: rng.permutation(40)[0] == 17),
    "whole part": _raw_if(lambda rng: int(rng.random() * 1000) == 500),
    "entry of a table": _lookup,
    "count far below": _after_a_count,
}


def _noisy_counts(d: Any, rng: Any) -> Any:
    return np.histogram(clip(d), 4, (0, 10))[0] + rng.laplace(0, 1, 4)


def _write(write: Callable[..., None], item: Any, mode: str = "w") -> None:
    with open("counts", mode) as file:
        write(item, file)


RIGHT: dict[str, Callable[[Any, Any], Any]] = {
    "written as JSON": lambda d, rng: _write(json.dump, {"counts": _noisy_counts(d, rng).tolist()}),
    "text of JSON": lambda d, rng: json.dumps(_noisy_counts(d, rng).tolist(), indent=1),
    "written by pickle": lambda d, rng: _write(pickle.dump, _noisy_counts(d, rng), "wb"),
    "pickled numbers": lambda d, rng: pickle.dumps(_noisy_counts(d, rng).tolist()),
    "written by numpy": lambda d, rng: np.save("counts.npy", _noisy_counts(d, rng)),
    "written as a table": lambda d, rng: pd.DataFrame({"count": _noisy_counts(d, rng)}).to_csv("counts.csv"),
    "copy of the generator": lambda d, rng: float(clip(d).sum() + copy.deepcopy(rng).laplace(0, 10)),
    "noise that is asked for its type": lambda d, rng: (
        (noise := float(rng.laplace(0, 10))) + _sum(d) * isinstance(noise, float)
    ),
    "float as a type of torch": lambda d, rng: float(torch.zeros(1, dtype=float)[0] + clip(d).sum() + rng.laplace(0, 10)),
    "noise of numpy in a tensor": lambda d, rng: torch.tensor([_sum(d)]).double() + torch.from_numpy(rng.laplace(0, 10, 1)),
    "object that counts": lambda d, rng: MECHANISM(_sum(d), rng),
    "cached scale": lambda d, rng: float(clip(d).sum() + rng.laplace(0, _cached(1.0))),
    "log of the release": lambda d, rng: LOG.info("value %s", value := _noisy(d, rng)) or value,
    "public folder": lambda d, rng: os.makedirs("folder", exist_ok=True) or _noisy(d, rng),
    "noisy maximum": lambda d, rng: int(np.argmax([np.sum(clip(d) > t) for t in (1, 5, 7)] + rng.laplace(0, 1, 3))),
}


def _check(run: Callable[[Any, Any], Any]) -> PairResult:
    return check_pair(Program(run), PAIR, ReplayClaim(epsilon=1.0))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANNELS)
def test_what_a_program_leaves_beside_its_result_is_seen(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, handler = sys.argv.copy(), np.geterr()
    assert _check(lambda d, rng: (_noisy(d, rng), CHANNELS[name](d))).verdict is not ReplayVerdict.PROVED
    assert (sys.argv, np.geterr()) == (arguments, handler)
    assert not hasattr(json, "raw")


@pytest.mark.slow
@pytest.mark.parametrize("name", SELDOM)
def test_each_outcome_of_a_decision_is_taken(name: str) -> None:
    assert _check(SELDOM[name]).verdict is not ReplayVerdict.PROVED


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_proved(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _check(RIGHT[name]).verdict is ReplayVerdict.PROVED


def test_a_generator_and_its_copy_draw_the_same() -> None:
    result = _check(
        lambda d, rng: [float(_sum(d) + copy.deepcopy(rng).laplace(0, 20)), float(10 * len(d) + rng.laplace(0, 20))]
    )
    assert result.verdict is ReplayVerdict.NOT_FOLLOWED
    assert "its copy" in result.reason


@pytest.mark.parametrize("chance", [1e-6, 1e-9, 1e-15])
@pytest.mark.parametrize("law", ["random", "exponential"])
def test_an_outcome_is_forced_however_narrow_its_range(chance: float, law: str) -> None:
    result = _check(lambda d, rng: (_noisy(d, rng), len(d) if getattr(rng, law)() < chance else 0))
    assert result.verdict is ReplayVerdict.BOUND
    assert "differs although all releases are equal" in result.reason


def _shuffled(rng: Any) -> list[int]:
    items = list(range(10))
    rng.shuffle(items)
    return items


@pytest.mark.parametrize("order", [lambda rng: rng.permutation(10).tolist(), _shuffled], ids=["permutation", "shuffle"])
@pytest.mark.parametrize("way", [1, -1])
def test_an_order_as_it_was_or_turned_round_is_tried(order: Any, way: int) -> None:
    result = _check(lambda d, rng: (_noisy(d, rng), len(d) if order(rng) == list(range(10))[::way] else 0))
    assert result.verdict is ReplayVerdict.BOUND


def test_a_rare_outcome_is_forced() -> None:
    result = _check(SELDOM["small within small"])
    assert result.verdict is ReplayVerdict.BOUND
    assert "differs although all releases are equal" in result.reason
