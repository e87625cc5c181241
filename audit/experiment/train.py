"""From plantings to what was observed of the trained models: jobs, the store, gathering.

A job trains some models of one game together and keeps only what later steps read. Its key is the
hash of everything that decides its result, so a finished job is never run again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from audit.core import event_reading
from audit.core.data import Array, Canaries, Dataset, Planting
from audit.core.errors import ObservationError
from audit.core.protocols import Executor
from audit.core.seeds import Seed
from audit.core.training import Executed, Progress, TrainingJob
from audit.execution import code
from audit.execution.store import Store
from audit.experiment.job import SIGNAL, Order, canaries_digest, dataset_digest, fit_and_observe, job_key, multiplied
from audit.experiment.spec import Experiment, Play, Recipe
from audit.experiment.warm_start import fitted_start

CHECKPOINTS = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """What was seen of all models of a game, targets first. Signals lie on disk and are read where they are used.

    Attributes:
        signals: `(models, m, ...)` by key: of the canaries, as far as attacks read them.
        test_logits: `(models, n, classes)`.
        diverged: `(models,)` true where a model did not stay finite; its signals are zero.
        executed: what the trainer did.
    """

    signals: Mapping[str, Array]
    test_logits: Array
    diverged: Array
    executed: Executed


def orders(experiment: Experiment, recipe: Recipe, game: Play, planting: Planting) -> list[Order]:
    """The jobs of one game on one recipe, at most `models_per_job` models each, in the order of `Play.portions`."""
    seed = model_seed(experiment, recipe, game)
    canaries = planting.canaries
    content = dataset_digest(experiment.dataset) + canaries_digest(canaries)
    initial = fitted_start(experiment, recipe, canaries, seed)
    signals = game.signals(canaries)
    copied, looks = multiplied(canaries), checkpoints(game, canaries, event_reading.steps(recipe.mechanism))
    found, running = [], code.digest(experiment.foreign)
    for rows in game.portions(experiment.models_per_job):
        make = functools.partial(
            TrainingJob,
            included=np.repeat(planting.included[rows.start : rows.stop], canaries.copies, axis=1),
            seeds=tuple(seed.child("model", row) for row in rows),
            mechanism=recipe.mechanism,
            model=recipe.model,
            optimizer=recipe.optimizer,
            access=game.access,
            device=experiment.device,
            start=initial,
            checkpoints=looks,
        )
        job = make(dataset=experiment.dataset, canaries=copied)
        order = Order(
            key=job_key(job, recipe.trainer, content, signals, running),
            trainer=recipe.trainer,
            job=make,
            models=len(rows),
            steps=event_reading.steps(recipe.mechanism),
            code=running,
            foreign=experiment.foreign,
            signals=signals,
        )
        found.append(order)
    return found


def checkpoints(game: Play, canaries: Canaries, steps: int) -> tuple[int, ...]:
    """The steps after which records are looked at: evenly spread, the last included; none where nobody sees them."""
    if "steps" not in game.access.released or canaries.are_gradients:
        return ()
    return spread_over(steps)


def spread_over(steps: int) -> tuple[int, ...]:
    """At most `CHECKPOINTS` numbers of steps, evenly spread, the last included."""
    return tuple(sorted({max(1, round(steps * (i + 1) / CHECKPOINTS)) for i in range(CHECKPOINTS)}))


def model_seed(experiment: Experiment, recipe: Recipe, game: Play) -> Seed:
    """The stream below which each model of a game on a recipe has its own."""
    return experiment.seed.child(f"recipe:{recipe.name}").child(f"game:{game.name}").child("models")


def train(
    found: Sequence[Order],
    shared: tuple[Dataset, Canaries],
    tools: tuple[Store, Executor, Progress],
    enough: Callable[[int], bool],
) -> int:
    """How many of the jobs count, from the first: all, or as many as were enough.

    Jobs that the store holds are not run again, others are stored as they finish. `enough` is asked in the order of the jobs,
    so where it ends does not depend on which finished first, or in which process: a job that finished ahead of its turn
    waits, and one behind the end does not count even if it was trained.

    Args:
        found: the jobs in their order.
        shared: what all of them are about.
        tools: where results are kept, who runs jobs, and who hears of progress.
        enough: whether the first so many jobs, all of them stored, are enough.
    """
    store, executor, progress = tools
    lacking = {order.key for order in found if not store.intact(order.key)}
    missing = [order for order in found if order.key in lacking]
    ledger = _Steps(total=sum(order.models * order.steps for order in found), progress=progress)
    ledger(sum(order.models * order.steps for order in found if order.key not in lacking))
    queue = _InOrder(keys=[order.key for order in found], lacking=lacking, enough=enough)
    if queue.advance():
        ledger.close()
        return queue.count
    with closing(executor.map(fit_and_observe, shared, missing, ledger)) as results:
        for index, value in results:
            store.put(missing[index].key, value)
            lacking.discard(missing[index].key)
            if queue.advance():
                break
    ledger.close()
    return queue.count


@dataclass(slots=True, kw_only=True)
class _InOrder:
    """Asks for each job in its turn, as soon as it and all before it are there, whether that is enough."""

    keys: Sequence[str]
    lacking: set[str]
    enough: Callable[[int], bool]
    count: int = 0

    def advance(self) -> bool:
        """Whether the jobs that count are known."""
        while self.count < len(self.keys) and self.keys[self.count] not in self.lacking:
            self.count += 1
            if self.enough(self.count):
                return True
        return self.count == len(self.keys)


@dataclass(slots=True, kw_only=True)
class _Steps:
    """Passes progress on and says at the end that what was not needed is done with."""

    total: int
    progress: Progress
    told: int = 0

    def __call__(self, steps: int) -> None:
        self.told += steps
        self.progress(steps)

    def close(self) -> None:
        if self.told < self.total:
            self.progress(self.total - self.told)


def gather(keys: Sequence[str], store: Store) -> Observed:
    """The jobs' results as one, models in order; memory holds one job at a time."""
    small = [store.get(key, lambda name: name == "diverged" or name.startswith("executed/")) for key in keys]

    def joined(name: str) -> Array:
        missing = [key for key, part in zip(keys, small, strict=True) if name not in part]
        if missing:
            raise ObservationError(f"stored job {missing[0]} lacks '{name}'; another version wrote it, start a new run")
        return np.concatenate([part[name] for part in small])

    executed = Executed(
        steps=int(small[0]["executed/steps"]),
        noise_draws=int(small[0]["executed/noise_draws"]),
        measured=bool(small[0]["executed/measured"]),
        **{
            name: joined(f"executed/{name}")
            for name in (
                "batch_sizes",
                "population",
                "noise_multiplier",
                "largest_norm",
                "skipped",
                "recomputed",
                "count_noise",
            )
        },
    )
    diverged = joined("diverged")
    named = store.names(keys[0])
    signals = {name.removeprefix(SIGNAL): _whole(name, keys, len(diverged), store) for name in named if name.startswith(SIGNAL)}
    test_logits = _whole("test_logits", keys, len(diverged), store)
    return Observed(signals=signals, test_logits=test_logits, diverged=diverged, executed=executed)


def _whole(name: str, keys: Sequence[str], models: int, store: Store) -> Array:
    """`(models, ...)` on disk, filled job by job."""
    whole: Array | None = None
    done = 0
    for key in keys:
        part = store.get(key, name.__eq__).get(name)
        if part is None:
            raise ObservationError(f"stored job {key} lacks '{name}'; another version wrote it, start a new run")
        if whole is None:
            whole = store.scratch(f"{key}-{name.removeprefix(SIGNAL)}", (models, *part.shape[1:]), part.dtype)
        whole[done : done + len(part)] = part
        done += len(part)
    if whole is None:
        raise ObservationError("no job has been stored; start a new run")
    return whole
