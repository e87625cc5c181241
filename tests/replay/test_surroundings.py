"""What a program keeps outside of itself is seen by a replay, and is as it was before afterwards."""

from __future__ import annotations

import collections
import ctypes
import functools
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import audit
from audit.replays.check import ReplayVerdict
from audit.replays.recording import Recording
from audit.replays.run import Program
from tests.replay.corpus import clip

NUMBERS = np.array([0.9, 2.4, 8.0, 5.8, 0.9, 4.3])
MODULE: Any = types.ModuleType("settings")
IN_TUPLE: tuple[list[int], ...] = ([],)
QUEUE: collections.deque[int] = collections.deque([1, 2])
LONG = list(range(20_000))
RANGE = range(5 * 10**6)
ARRAY = np.arange(10**6)


class _Base:
    count = 0


class _Kept(_Base):
    def __init__(self) -> None:
        self.items: list[int] = []


class _Slots:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


SLOTS, KEPT = _Slots(), _Kept()


def _helper(store: Any = ([],), *, named: Any = ([],)) -> tuple[Any, Any]:
    return store, named


def _release(d: Any, rng: Any) -> float:
    return float(clip(d).sum() + rng.laplace(0, 10))


def _keeps(keep: Callable[[Any], Any]) -> Callable[[Any, Any], float]:
    def run(d: Any, rng: Any) -> float:
        keep(d)
        return _release(d, rng)

    return run


def _new_name(d: Any) -> None:
    globals()["NEW_NAME"] = float(clip(d).sum())


def _new_function(d: Any) -> None:
    total = float(clip(d).sum())
    _helper.read = lambda: total  # type: ignore[attr-defined]


def _count_on_the_class_of(item: Any, d: Any) -> None:
    type(item).count = len(d)


def _deep(d: Any, rng: Any) -> Any:
    value: Any = float(clip(d).sum())
    for _ in range(20):
        value = [value]
    return value, _release(d, rng)


class _Remark(Warning):
    pass


KEEPING: dict[str, Callable[[Any], Any]] = {
    "a new attribute of a class": lambda d: setattr(_Kept, "fresh", float(clip(d).sum())),
    "an inherited attribute": lambda d: setattr(_Kept, "count", len(d)),
    "a class by its object": lambda d: _count_on_the_class_of(KEPT, d),
    "a new name": _new_name,
    "a module": lambda d: setattr(MODULE, "raw", len(d)),
    "a module of a library": lambda d: setattr(np, "raw_for_a_test", len(d)),
    "a function": lambda d: setattr(_helper, "raw", len(d)),
    "a function on a function": _new_function,
    "a default": lambda d: _helper()[0][0].append(len(d)),
    "a named default": lambda d: _helper()[1][0].append(len(d)),
    "a list in a tuple": lambda d: IN_TUPLE[0].append(len(d)),
    "a queue": lambda d: QUEUE.append(len(d)),
    "a long list": lambda d: LONG.append(len(d)),
    "a slot": lambda d: setattr(SLOTS, "value", len(d)),
    "a list of an object": lambda d: KEPT.items.append(len(d)),
    "a file named by bytes": lambda d: open(b"out.txt", "w").write(str(len(d))),  # noqa: SIM115
    "a warning about the caller": lambda d: warnings.warn(f"{len(d)} records", stacklevel=3),
    "a warning of another kind": lambda d: warnings.warn(f"{len(d)} records", RuntimeWarning, stacklevel=1),
    "a warning of its own kind": lambda d: warnings.warn(f"{len(d)} records", _Remark, stacklevel=2),
}


def _state() -> str:
    spaces = [vars(_Kept), vars(_Base), globals(), vars(MODULE), vars(_helper)]
    names = [sorted(name for name in space if name[:2] != "__") for space in spaces]
    values = IN_TUPLE, QUEUE, len(LONG), SLOTS.value, KEPT.items, _Base.count, _helper(), hasattr(np, "raw_for_a_test")
    return repr((names, values))


@pytest.mark.parametrize("name", KEEPING)
def test_what_a_program_keeps_is_seen_and_put_back(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = _state()
    report = audit.replay(_keeps(KEEPING[name]), [(NUMBERS, NUMBERS[1:])], epsilon=1.0, sampling_seconds=0)
    assert report.verdict is not ReplayVerdict.PROVED
    assert _state() == before


def test_what_is_deep_in_the_result_is_a_gap() -> None:
    report = audit.replay(_deep, [(NUMBERS, NUMBERS[1:])], epsilon=1.0, sampling_seconds=0)
    assert report.verdict is ReplayVerdict.NOT_FOLLOWED
    assert "levels" in report.worst.reason


def _returns_a_function(d: Any, rng: Any, how: str) -> Callable[..., Any]:
    raw, value = float(clip(d).sum()), _release(d, rng)

    def answer(*, total: float = raw if how == "default" else 0.0) -> float:
        return value + 0 * total

    if how == "attribute":
        answer.raw = raw  # type: ignore[attr-defined]
    return answer


@pytest.mark.parametrize("how", ["default", "attribute", "none"])
def test_what_a_returned_function_holds_is_seen(how: str) -> None:
    run = functools.partial(_returns_a_function, how=how)
    report = audit.replay(run, [(NUMBERS, NUMBERS[1:])], epsilon=1.0, sampling_seconds=0)
    assert (report.verdict is ReplayVerdict.PROVED) == (how == "none")


def test_right_programs_that_keep_the_same_on_both_sides_stay_proved() -> None:
    def run(d: Any, rng: Any) -> float:
        _Kept.fresh, MODULE.calls, _helper.last = 1, 2, [3]  # type: ignore[attr-defined]
        globals()["NEW_NAME"] = "the same"
        warnings.warn("the same", DeprecationWarning, stacklevel=2)
        np.mean([])  # a warning of numpy
        if len(d) > 5:
            np.asarray(1j).astype(float)  # a warning of numpy that names this line
        return _release(d, rng)

    report = audit.replay(run, [(NUMBERS, NUMBERS[1:])], epsilon=1.0, sampling_seconds=0)
    assert report.verdict is ReplayVerdict.PROVED, str(report)


def test_long_globals_cost_little() -> None:
    def run(d: Any, rng: Any) -> float:
        return _release(d, rng) + (3 not in RANGE) + float(ARRAY[0])

    program, start = Program(run), time.process_time()
    program.run(NUMBERS, Recording(seed=1))
    assert time.process_time() - start < 0.5


def test_modules_imported_first_by_the_program_are_followed_and_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_noise.py").write_text("from numpy.random import default_rng\nraw = None\n")
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "library_noise.py").write_text("import numpy as np\nfrom numpy.random import default_rng\nrng = default_rng()\n")
    for folder in (tmp_path, library):
        monkeypatch.syspath_prepend(str(folder))

    def right(d: Any, rng: Any) -> float:
        import library_noise  # type: ignore[import-not-found]
        import own_noise  # type: ignore[import-not-found]

        return float(clip(d).sum() + own_noise.default_rng().laplace(0, 20) + library_noise.rng.laplace(0, 10))

    def wrong(d: Any, rng: Any) -> float:
        import own_noise

        own_noise.raw = len(d)
        return right(d, rng)

    verdicts = [audit.replay(run, [(NUMBERS, NUMBERS[1:])], epsilon=1.0, sampling_seconds=0).verdict for run in (right, wrong)]
    assert verdicts[0] is ReplayVerdict.PROVED
    assert verdicts[1] is not ReplayVerdict.PROVED
    assert "own_noise" not in sys.modules
    library_noise = sys.modules.pop("library_noise")
    assert library_noise.default_rng is np.random.default_rng
    assert np.isfinite(library_noise.rng.normal())


class _Pointer(ctypes.POINTER(ctypes.c_int)):  # type: ignore[misc]
    _type_ = ctypes.c_int


POINTER = _Pointer(ctypes.c_int(7))
POINTER.note = "held"


def test_an_object_of_another_language_is_left_as_it_is() -> None:
    def run(d: Any, rng: Any) -> float:
        return float(clip(d).sum() + POINTER[0] + rng.laplace(0, 10))

    report = audit.replay(run, [(np.array([1.0, 2.0]), np.array([1.0]))], epsilon=1.0, sampling_seconds=0)
    assert report.verdict is ReplayVerdict.PROVED, str(report)
