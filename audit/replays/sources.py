"""The names by which programs reach randomness, replaced while one runs."""

import json
import math
import os
import random
import secrets
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from audit.replays import recording as recordings
from audit.replays.generators import GENERATORS, FollowedGenerator, FollowedRandom, FollowedRandomState
from audit.replays.noisy import NoisyArray, holds_noise, lift, release_inside
from audit.replays.seeds import NOTING
from audit.replays.surviving import is_own

_SYSTEM = ((os, "urandom"), (secrets, "randbits"), (secrets, "randbelow"), (secrets, "choice"), (secrets, "token_bytes"))
_ABSENT, _STANDARD = object(), os.__file__
_SECRET_BITS = 24  # of a number of the system that may be a seed
_KEEP = "numpy scipy audit random secrets tempfile torch sklearn pandas _pytest pytest hypothesis".split()  # noqa: SIM905
_MAKERS = (np.array, np.asarray, np.asanyarray)
_LISTS = "argmax argmin sum mean max min amax amin cumsum dot median sort argsort clip round where".split()  # noqa: SIM905
_MATH = {
    "log": np.log, "exp": np.exp, "sqrt": np.sqrt, "cos": np.cos, "sin": np.sin, "tan": np.tan, "log1p": np.log1p, "expm1":
    np.expm1,
    "fabs": np.abs, "log2": np.log2, "log10": np.log10,
}  # fmt: skip


def _make_generator(seed: Any = None) -> Any:
    return seed if isinstance(seed, FollowedGenerator) else FollowedGenerator(seed)


def _math(name: str) -> Any:
    plain = getattr(math, name)

    def function(x: Any, *base: Any) -> Any:
        if not isinstance(x, NoisyArray):
            return plain(x, *base)
        answer: Any = _MATH[name](x)
        answer = answer if isinstance(answer, NoisyArray) else float(answer)
        return answer / plain(base[0]) if base else answer

    return function


def _copysign(x: Any, y: Any) -> Any:
    return _plain_copysign(x, y) if not isinstance(y, NoisyArray) else abs(x) * np.sign(y)


_plain_copysign = math.copysign


class _IntType(type):
    def __instancecheck__(cls, item: Any) -> bool:
        return isinstance(item, int)


class _Int(int, metaclass=_IntType):
    """The `int` of the user's code while a program runs: noise alone that is a whole number keeps its law."""

    dtype = np.dtype(np.int64)

    def __new__(cls, item: Any = 0, *base: Any) -> Any:
        return item.scalar() if isinstance(item, NoisyArray) and item.is_whole_noise else int(item, *base)


class _FloatType(type):
    def __instancecheck__(cls, item: Any) -> bool:
        return isinstance(item, float) or (isinstance(item, NoisyArray) and not item.ndim)


class _Float(float, metaclass=_FloatType):
    """The `float` of the user's code while a program runs: noise alone keeps its law."""

    dtype = np.dtype(np.float64)

    def __new__(cls, item: Any = 0.0) -> Any:
        return item.scalar() if isinstance(item, NoisyArray) and item.pure and item.size == 1 else float(item)


def _followed_rvs(rvs: Any) -> Any:
    def function(self: Any, *args: Any, **options: Any) -> Any:
        if options.get("random_state") is None:
            options["random_state"] = FollowedRandomState()
        return rvs(self, *args, **options)

    return function


_iterencode = json.JSONEncoder.iterencode


def _encode_released(self: Any, item: Any, *options: Any, **keywords: Any) -> Any:
    return _iterencode(self, release_inside(item), *options, **keywords)


def _unfollowed(plain: Any, name: str) -> Any:
    def function(*args: Any, **options: Any) -> Any:
        recording, answer = recordings.active(), plain(*args, **options)
        caller = str(sys._getframe(1).f_globals.get("__name__", "")).partition(".")[0]
        if recording is not None and caller not in sys.stdlib_module_names and caller not in _KEEP:
            recording.gaps.append(gap := f"numbers of {name}")
            if isinstance(answer, int | bytes):
                orders: Any = ("big", "little")
                whole = [answer] if isinstance(answer, int) else [int.from_bytes(answer, order) for order in orders]
                recording.drawn_seeds |= {repr(seed): gap for seed in [answer, *whole] if whole[0].bit_length() > _SECRET_BITS}
        return answer

    return function


def _of_lists(plain: Any) -> Any:
    """Return a function of numpy that keeps the noise of numbers in a list, which numpy itself would read one by one."""

    def function(*args: Any, **options: Any) -> Any:
        recording = recordings.active()
        if recording is None or not args or type(args[0]) not in (list, tuple) or not holds_noise(args[0]):
            return plain(*args, **options)
        array = lift(recording, args[0])
        return array if plain in _MAKERS else plain(array, *args[1:], **options)

    return function


def replacements() -> dict[int, Any]:
    """Return the replacement of each source of randomness, by the identity of the source."""
    state, python = FollowedRandomState(), FollowedRandom()
    table: dict[int, Any] = {
        id(np.random.default_rng): _make_generator,
        id(np.random.RandomState): FollowedRandomState,
        id(np.random.Generator): FollowedGenerator,
        id(np.random.seed): state.seed,
        id(random.Random): FollowedRandom,
        id(random.SystemRandom): FollowedRandom,
    } | NOTING
    for name in dir(np.random):
        function = getattr(np.random, name)
        if isinstance(getattr(function, "__self__", None), np.random.RandomState) and hasattr(state, name):
            table[id(function)] = getattr(state, name)
    table[id(np.random.random)] = state.random
    for name in ("ranf", "sample"):
        table[id(getattr(np.random, name))] = state.random_sample
    for name in dir(random):
        function = getattr(random, name)
        if isinstance(getattr(function, "__self__", None), random.Random):
            table[id(function)] = getattr(python, name)
    return table


class Sources:
    """The places where modules hold sources of randomness, looked up once per replay.

    Args:
        function: the program: what its own globals and closure hold is followed as well.
    """

    def __init__(self, function: Any) -> None:
        table = replacements()
        self.keeps_floats = True  # the law of noise that `float` is asked for
        self.places: list[tuple[dict[str, Any], str, Any]] = []
        modules = [
            module
            for name, module in list(sys.modules.items())
            if isinstance(module, types.ModuleType) and name.partition(".")[0] not in _KEEP
        ]
        # by identity in each module's names: `from numpy.random import normal` has put the function itself there
        for module in [*modules, np.random, random]:
            for name, item in list(vars(module).items()):
                new = table.get(id(item)) if callable(item) else self._instance(item)
                if new is not None and not name.startswith("__"):
                    self.places.append((vars(module), name, new))
        self.places += [(vars(math), name, _math(name)) for name in _MATH]
        self.places.append((vars(math), "copysign", _copysign))
        self.places += [(vars(np), name, _of_lists(vars(np)[name])) for name in ("array", "asarray", "asanyarray", *_LISTS)]
        self.cells = [
            (cell, new)
            for cell in getattr(function, "__closure__", None) or ()
            if (new := table.get(id(cell.cell_contents)) or self._instance(cell.cell_contents)) is not None
        ]
        self.places.append((vars(secrets), "SystemRandom", FollowedRandom))
        own = [vars(module) for module in modules if is_own(getattr(module, "__file__", None) or _STANDARD)]
        own += [getattr(function, "__globals__", {})]
        self.places += [(names, name, new) for names in own for name, new in (("float", _Float), ("int", _Int))]
        stats = sys.modules.get("scipy.stats._distn_infrastructure")
        self.attributes: list[tuple[Any, str, Any]] = [(json.JSONEncoder, "iterencode", _encode_released)]
        if stats is not None:  # its distributions hold the global generator
            self.attributes.append((stats.rv_generic, "rvs", _followed_rvs(stats.rv_generic.rvs)))
        self.places += [
            (vars(module), name, _unfollowed(vars(module)[name], f"{module.__name__}.{name}")) for module, name in _SYSTEM
        ]

    @staticmethod
    def _instance(item: Any) -> Any:
        kind = GENERATORS.get(random.Random if type(item) is random.SystemRandom else type(item))
        return None if kind is None else kind()

    @contextmanager
    def follow(self, recording: recordings.Recording) -> Iterator[Any]:
        """A scope in which the program draws from a recording; yields the generator that it is given."""
        places = [place for place in self.places if self.keeps_floats or place[2] not in (_Float, _Int)]
        before = [(names, name, names.get(name, _ABSENT)) for names, name, _ in places]
        methods = [(owner, name, getattr(owner, name)) for owner, name, _ in self.attributes]
        contents = [(cell, cell.cell_contents) for cell, _ in self.cells]
        recordings.activate(recording)
        try:
            for names, name, new in places:
                names[name] = new
            for cell, new in self.cells:
                cell.cell_contents = new
            for owner, name, new in self.attributes:
                setattr(owner, name, new)
            yield FollowedGenerator()
        finally:
            for names, name, item in before:
                if item is _ABSENT:
                    names.pop(name, None)
                else:
                    names[name] = item
            for owner, name, item in methods:
                setattr(owner, name, item)
            for cell, item in contents:
                cell.cell_contents = item
            recordings.deactivate()
