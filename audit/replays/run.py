"""One run of a program under a recording."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import dis
import inspect
import random
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.replays import foreign_calls, imports, operations, surviving
from audit.replays.branches import Branches
from audit.replays.recording import Recording, Schedule, is_library
from audit.replays.sources import Sources
from audit.replays.surroundings import Surroundings

_SETTLING_RUNS = 3  # at most, until no library is loaded any more: torch, once it is there, loads others when it is followed
LOCK = threading.RLock()  # while one thread replays, names of numpy and math are replaced for the whole process
_SLOW = 0.3  # seconds of a run from which one path of each pair has to do
_SOURCE = re.compile("rng|generator|random_state|^(gen|random)$", re.IGNORECASE)  # names of an argument with a default


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgramRun:
    """What a run recorded, and the atoms of all that it left behind.

    Attributes:
        error: its type and text if one was raised.
        refuses: whether a `raise` of the program's did: then it is an answer, with its content among the atoms.
    """

    recording: Recording
    atoms: tuple[tuple[str, Any], ...]
    error: str | None = None
    refuses: bool = False


class Program:
    """A function `(data, rng)` or `(data)` with the places at which it draws and keeps state."""

    def __init__(self, function: Callable[..., Any], *, notes_tests: bool = False) -> None:
        self.function = function
        with LOCK:
            self.sources = Sources(function)
        self.seconds = 0.0  # of the processor, of the longest run
        self.outcomes: Any = None  # ledger of the outcomes of decisions that were taken (`audit.replays.outcome_ledger`)
        self._settling_runs = _SETTLING_RUNS  # still to be made before the first that counts
        self.failures = 0  # pairs with a law of decisions that was not found
        self.spent = 0.0  # seconds of the processor on laws of decisions that were not found
        self.decision_paths: dict[Any, Any] = {}  # with their data (`audit.replays.decisions`)
        self._records: dict[tuple[int, int, Schedule], tuple[Any, ProgramRun]] = {}
        self.surroundings = Surroundings(function)
        self.branches = Branches(self.surroundings.functions if notes_tests else [])
        self.paths = dict[int, Any]()  # of runs that were replayed, by data set (`audit.replays.unvisited`)
        self.turns = dict[Any, int]()  # tests of the code that come out otherwise in each run
        self.takes_generator = _takes_generator(function)
        self._calls: set[str] | None = None

    def record(self, data: Any, seed: int, schedule: Schedule) -> ProgramRun:
        """Return the run on a data set with that seed; pairs that share the data set share the run."""
        key = (id(data), seed, schedule)
        if key not in self._records:
            self._records[key] = (
                data,
                self.run(data, Recording(seed=seed, schedule=schedule)),
            )  # the data are kept: so is their id
        return self._records[key][1]

    def run(self, data: Any, recording: Recording) -> ProgramRun:
        """Run the program once on a copy of the data; the state outside of it is put back afterwards."""
        with LOCK:
            modules = set(sys.modules)
            try:
                while self._settling_runs:
                    self._settling_runs -= 1
                    self._settle(data, recording.seed, modules)
                    imports.put_back(modules, self.sources.places)
                    if modules == (modules := set(sys.modules)):  # what a library loads once, and draws, is in no later run
                        self._settling_runs = 0
                return self._run(data, recording, modules)
            finally:
                imports.put_back(modules, self.sources.places)

    def forget_pair(self) -> None:
        """Forget what was noted by data sets that may be gone."""
        self.paths.clear()
        self.branches.arguments.clear()

    @property
    def is_slow(self) -> bool:
        """True if few runs have to do."""
        return self.seconds > _SLOW

    def _settle(self, data: Any, seed: int, modules: set[str]) -> None:
        """Leave the name `float` alone if the program only runs with that of Python."""
        if self._run(data, Recording(seed=seed), modules).error is not None:
            self.sources.keeps_floats = False
            self.sources.keeps_floats = self._run(data, Recording(seed=seed), modules).error is not None
        self.seconds = 0.0  # the first run loads what it imports

    def _run(self, data: Any, recording: Recording, modules: set[str]) -> ProgramRun:
        start = time.process_time()
        recording.turns = self.turns | recording.turns
        data = copy.deepcopy(data)
        error, result, context, refusal = None, None, contextvars.copy_context(), None
        variables = dict(context)
        atoms: list[tuple[str, Any]] = []
        follow = self.sources.follow(recording), _follow_torch(recording), warnings.catch_warnings(), np.errstate(all="ignore")
        with follow[0] as generator, follow[1], follow[2], follow[3], self.surroundings.scope():
            warnings.simplefilter("ignore")
            with surviving.watch() as table, self.branches.scope():
                try:
                    result = context.run(self.function, *((data, generator) if self.takes_generator else (data,)))
                    result = context.run(list, result) if inspect.isgenerator(result) else result
                except (Exception, SystemExit) as problem:  # noqa: BLE001  whatever the program raises is part of what it shows
                    error, refusal = f"{type(problem).__name__}: {problem}", _find_refusal(problem)
            recording.at_return = True
            if error is None:
                atoms += surviving.leaves(result, "returned")
            if refusal is not None:
                atoms += surviving.leaves(refusal, "raised")
            set_variables = {name.name: item for name, item in context.items() if variables.get(name) is not item}
            table |= {
                f"variable {name}": item for name, item in set_variables.items() if name != "decimal_context"
            }  # with its flags
            atoms += surviving.leaves(table, "written")
            atoms += surviving.leaves(data, "data")
            texts = {atom[1] for path, atom in atoms if isinstance(atom, tuple) and path.startswith(("returned", "written"))}
            if texts & recording.used_seeds:
                recording.gaps.append("a seed that the program gives away, and all noise of it")
            atoms += [*self.surroundings.leaves(), *imports.leaves(modules)]
        self.seconds = max(self.seconds, time.process_time() - start)
        return ProgramRun(recording=recording, atoms=tuple(atoms), error=error, refuses=refusal is not None)

    def is_followed(self, data: Any) -> bool:
        """True if a run on the data (the first that are asked about) calls no code with randomness that is not followed."""
        return not self._foreign_calls(data)

    def find_hidden_sources(self, data: Any) -> list[str]:
        """Return what a run on the data (the first that are asked about) calls with randomness that no replay sees."""
        return foreign_calls.find_hidden_sources(self._foreign_calls(data))

    def _foreign_calls(self, data: Any) -> set[str]:
        if self._calls is None:
            self._calls, function = set(), self.function
            try:
                self.function = foreign_calls.watch_calls(function, self._calls)
                self._calls.update(self.run(data, Recording(seed=0)).recording.gaps)
            finally:
                self.function = function
        return self._calls


def _takes_generator(function: Callable[..., Any]) -> bool:
    """True if the second argument has no default, or its name or its default is that of a source of randomness."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        return True  # written in C
    second = next(iter([*inspect.signature(function).parameters.values()][1:]), None)
    if second is None or second.default is inspect.Parameter.empty:
        return True
    drawn = np.random.Generator, np.random.RandomState, random.Random
    return isinstance(second.default, drawn) or _SOURCE.search(second.name) is not None


def _find_refusal(problem: BaseException) -> tuple[Any, ...] | None:
    """Return what an error holds and where it was raised, None unless a `raise` in the program's own code did, for no other."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or problem.__context__ is not None or is_library(trace.tb_frame.f_code.co_filename):
        return None
    if dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] != "RAISE_VARARGS":
        return None
    return type(problem).__qualname__, trace.tb_frame.f_code.co_filename, trace.tb_lineno, problem.args, vars(problem)


def _follow_torch(recording: Recording) -> Any:
    """Return a context in which torch's noise is followed too, if the program's process has loaded torch."""
    if "torch" not in sys.modules:
        return contextlib.nullcontext()
    from audit.replays.torch_noise import follow

    return follow(recording)


__all__ = ["Program", "ProgramRun", "operations"]
