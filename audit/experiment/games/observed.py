"""The models of a game, with what was seen of them, gathered from the jobs that trained them."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from audit.core.coins import Coins, take_models
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.training import Executed
from audit.execution.store import Store
from audit.experiment.games.job_specs import SIGNAL, TEST_FIGURE, JobSpec
from audit.experiment.games.prepared_game import PreparedGame

# Where large arrays are that are computed on the way: in memory, or in files of the run folder that are mapped.
# `room(name, shape, dtype)` is an array to be filled; a second one of a name takes the place of the first
Room = Callable[[str, tuple[int, ...], Any], Array]


def in_memory(name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    return np.empty(shape, dtype)


_LARGE = 1 << 24  # bytes of an array that is computed of all models, from which on it is on disk


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observations:
    """What was seen of all models of a game, targets first. Signals are on disk and are read when they are used.

    Attributes:
        signals: `(models, m, ...)` by key: of the canaries, as far as attacks read them.
        diverged: `(models,)` true if a model did not stay finite; its signals are zero.
        test_figures: `(models,)` by name, of outputs for test records; NaN of models that diverged, and none of models that a
            user brought, of which `executed`, what the trainer did, is None.
        room: for what is computed of all models at once.
    """

    signals: Mapping[str, Array]
    diverged: Array
    test_figures: Mapping[str, Array] = field(default_factory=dict)
    executed: Executed | None = None
    room: Room = in_memory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GameModels:
    """The models of a game, trained here or brought by a user: everything that attacks read.

    Attributes:
        prepared_game: with the coins of these models alone, targets first: fewer than planned if the game stopped early.
        labels: `(m,)` true labels of the canaries, None if there are none or no one gave them.
        first: number of the first target among all of the game.
    """

    prepared_game: PreparedGame
    observed: Observations
    labels: Array | None
    first: int = 0

    @property
    def references(self) -> Array:
        """Numbers of the reference models that stayed finite."""
        runs = self.prepared_game.assignment.runs
        return runs + np.flatnonzero(~self.observed.diverged[runs:])

    @property
    def are_classified(self) -> bool:
        """True if canaries are records of classes, or of losses alone."""
        if self.prepared_game.assignment.canaries.records is None:
            return False
        return self.labels is None or self.labels.dtype.kind in "iu"


def as_slice(models: Array) -> Array | slice:
    """Return rising numbers that follow each other as a slice, so that what is on disk is not copied."""
    is_range = len(models) > 0 and int(models[-1]) - int(models[0]) == len(models) - 1
    return slice(int(models[0]), int(models[-1]) + 1) if is_range else models


def read_only(array: Any) -> Any:
    """The same numbers, not to be written to: an attack that did would change what others read."""
    if isinstance(array, Coins):
        return array
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def load_models(prepared_game: PreparedGame, jobs: Sequence[JobSpec], store: Store) -> GameModels:
    by_start = sorted(jobs, key=lambda job: job.rows.start)
    rows = np.concatenate([np.arange(job.rows.start, job.rows.stop) for job in by_start])
    assignment = prepared_game.assignment
    runs = int(np.sum(rows < prepared_game.game_design.runs))
    records = assignment.canaries.records
    return GameModels(
        prepared_game=replace(
            prepared_game, assignment=replace(assignment, included=take_models(assignment.included, as_slice(rows)), runs=runs)
        ),
        observed=gather([job.key for job in by_start], store),
        labels=None if records is None or prepared_game.game_design.by_losses else records.labels,
        first=int(rows[0]),
    )


def gather(keys: Sequence[str], store: Store) -> Observations:
    """The jobs' results as one, models in order; memory holds one job at a time."""
    is_small = ("diverged", "executed/", TEST_FIGURE)
    small = [store.get(key, lambda name: name.startswith(is_small)) for key in keys]

    def join(name: str) -> Array:
        missing = [key for key, part in zip(keys, small, strict=True) if name not in part]
        if missing:
            raise ObservationError(f"stored job {missing[0]} lacks '{name}'; another version wrote it, start a new run")
        return np.concatenate([part[name] for part in small])

    whole_run = {"steps": int, "noise_draws": int, "measured": bool}  # the same in every job of a game
    executed: dict[str, Any] = {key: kind(small[0][f"executed/{key}"]) for key, kind in whole_run.items()}
    further = [field.name for field in dataclasses.fields(Executed) if field.name not in whole_run]
    executed |= {key: join(f"executed/{key}") for key in further}
    non_finite = join("diverged")
    names = store.names(keys[0])
    rows = {name.removeprefix(SIGNAL): name for name in names if name.startswith(SIGNAL)}
    signals = {key: _whole(name, keys, len(non_finite), store) for key, name in rows.items()}
    figures = {name.removeprefix(TEST_FIGURE): join(name) for name in names if name.startswith(TEST_FIGURE)}
    return Observations(
        signals=signals, test_figures=figures, diverged=non_finite, executed=Executed(**executed), room=_room(store)
    )


def _room(store: Store) -> Room:
    """Files of the run's folder, for what is larger than memory should hold."""

    def room(name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        return in_memory(name, shape, dtype) if size < _LARGE else store.scratch(name.replace("/", "-"), shape, dtype)

    return room


def _whole(name: str, keys: Sequence[str], models: int, store: Store) -> Array:
    full: Array | None = None
    start = 0
    for key in keys:
        part = store.get(key, name.__eq__).get(name)
        if part is None:
            raise ObservationError(f"stored job {key} lacks '{name}'; another version wrote it, start a new run")
        if full is None:
            place = f"{key}-{name.removeprefix(SIGNAL).replace('/', '-')}"
            full = store.scratch(place, (models, *part.shape[1:]), part.dtype)
        full[start : start + len(part)] = part
        start += len(part)
    if full is None:
        raise ObservationError("no job has been stored; start a new run")
    return full
