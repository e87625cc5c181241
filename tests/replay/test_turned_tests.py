"""Tests in the code that no draw leads to another outcome are turned by force: leaks after several rare outcomes at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from random import expovariate as draw
from typing import Any

import numpy as np
import pytest

import audit
from audit.replays.check import ReplayVerdict

Leak = Callable[[], float]
PATTERN = [1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1]
DATA = np.array([0.9, 2.4, 8.0, 5.8, 0.9, 4.3])


def _coins_in_a_row(d: Any, r: Any, leak: Leak) -> float:
    count = 0
    while r.random() < 0.5:
        count += 1
    return leak() if count == 15 else 0.0


def _many_heads(d: Any, r: Any, leak: Leak) -> float:
    return (sum(r.random() < 0.5 for _ in range(30)) == 28) * leak()


def _pattern(d: Any, r: Any, leak: Leak) -> float:
    bits = [int(r.random() < 0.5) for _ in PATTERN]
    is_pattern = bits == PATTERN
    return leak() if is_pattern else 0.0


def _two_places(d: Any, r: Any, leak: Leak) -> float:
    order = r.permutation(20)
    if order[3] == 7 and order[11] == 2:
        return leak()
    return 0.0


def _shuffled(d: Any, r: Any, leak: Leak) -> float:
    order = list(range(8))
    random.shuffle(order)
    return leak() if order[:3] == [5, 2, 7] else 0.0


def _helper(count: int, leak: Leak) -> float:
    return leak() if count > 27 else 0.0


def _in_a_function_of_a_table(d: Any, r: Any, leak: Leak) -> float:
    return {"helper": lambda count, helper=_helper: helper(count, leak)}["helper"](int((r.random(30) < 0.5).sum()))


def _signs(d: Any, r: Any, leak: Leak) -> float:
    y = np.histogram(d, 10, (0, 10))[0] - 1 + r.laplace(0, 1, 10)
    return leak() if (np.sign(y).astype(int) == np.array([1, -1] * 5)).all() else 0.0


def _nested(d: Any, r: Any, leak: Leak) -> float:
    first, second = r.integers(40, size=2).tolist()
    if first + second == 77:
        third = r.integers(30) * r.integers(30)
        if third == 29 * 23:
            return leak()
    return 0.0


def _match(d: Any, r: Any, leak: Leak) -> float:
    match r.integers(0, 9, 4).tolist():
        case [1, 2, 3, 4]:
            return leak()
        case _:
            return 0.0


class _Release:
    def __init__(self, r: Any) -> None:
        self.bits = [int(r.random() < 0.5) for _ in PATTERN]

    def give(self, leak: Leak) -> float:
        return leak() if self.bits == PATTERN else 0.0


def _attribute(d: Any, r: Any, leak: Leak) -> float:
    return _Release(r).give(leak)


def _fill(bits: list[int], r: Any) -> None:
    bits[:] = [int(r.standard_exponential() < 0.7) for _ in bits]


def _filled(d: Any, r: Any, leak: Leak) -> float:
    bits = [0] * len(PATTERN)
    _fill(bits, r)
    return leak() if bits == PATTERN else 0.0


def _imported(d: Any, r: Any, leak: Leak) -> float:
    return leak() if [int(draw(1.0) < 0.7) for _ in PATTERN] == PATTERN else 0.0


PROGRAMS = (
    *(_coins_in_a_row, _many_heads, _pattern, _two_places, _shuffled, _in_a_function_of_a_table, _signs, _nested, _match),
    *(_attribute, _filled, _imported),
)


def _replay(program: Any) -> Any:
    return audit.replay(program, [(DATA, DATA[:-1])], epsilon=1.0, sampling_seconds=0)


@pytest.mark.parametrize("program", [PROGRAMS[0], *(pytest.param(program, marks=pytest.mark.slow) for program in PROGRAMS[1:])])
@pytest.mark.parametrize("leaks", [True, False])
def test_what_is_told_only_after_several_rare_outcomes_is_tried(program: Any, leaks: bool) -> None:
    left = 0 if program is _signs else 1  # of epsilon, which the signs have spent
    report = _replay(lambda d, r: program(d, r, lambda: float(len(d)) if leaks else float(left * len(d) + r.laplace())))
    assert (report.verdict is ReplayVerdict.PROVED) is not leaks


def test_tests_of_the_data_alone_are_left_as_they_are() -> None:
    def run(d: Any, rng: Any, none: Any = None) -> Any:
        if len(d) == 0 or none is not None:
            return float(len(d))
        kinds = dict.fromkeys(range(3), 0.0)
        for x in d:
            if x > 100:
                return float(len(d))
            kinds[int(x) % 3] += 1
        return [kinds[kind] + rng.laplace(0, 1) for kind in kinds if kind not in (7, 8)]

    assert _replay(run).verdict is ReplayVerdict.PROVED


def test_the_probability_of_combinations_that_no_run_had_is_said() -> None:
    one = _replay(lambda d, r: float(len(d) + r.laplace()))
    many = _replay(lambda d, r: _coins_in_a_row(d, r, lambda: float(len(d) + r.laplace())))
    coins = _replay(lambda d, r: sum(r.random() < 0.5 for _ in range(30)))
    assert one.not_visited == 0
    assert 0 < many.not_visited < 0.5
    assert coins.to_dict()["not_visited"] > 0.99
    assert "combinations of outcomes that no run had" in str(coins)


def test_code_that_cannot_be_compiled_once_more_runs_as_it_is(tmp_path: Path) -> None:
    """A sum of a thousand terms is too deep for the compiler's tree; another has builtins of its own."""
    head = "def run(d, rng):\n    if len(d) > 100:\n        return 0.0\n    return "
    for name, names, end in (("deep", {}, " + ".join(["0.0"] * 600)), ("restricted", {"__builtins__": {"len": len}}, "0.0")):
        file = tmp_path / f"{name}.py"
        file.write_text(f"{head}{end} + len(d) + rng.laplace()\n")
        exec(compile(file.read_text(), str(file), "exec"), names)
        assert _replay(names["run"]).verdict is ReplayVerdict.PROVED
