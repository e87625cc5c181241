"""From plantings to what was observed of the trained models: jobs, the store, gathering.

A job trains some models of one game together and keeps only what later steps read. Its key is the
hash of everything that decides its result, so a finished job is never run again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from attacks.signals.logits import Logits
from audit.core import event_reading
from audit.core.data import Canaries, Dataset
from audit.core.training import Progress, TrainingJob
from audit.execution import code
from audit.execution.store import Store
from audit.experiment.insertion import Insertion
from audit.experiment.job import Order, canaries_digest, dataset_digest, fit_and_observe, job_key, with_companions, with_copies
from audit.experiment.spec import Execution, Play
from audit.experiment.warm_start import fitted_start

CHECKPOINTS = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resources:
    """What every training of an audit shares: the data, where jobs run and are kept, and who hears of progress."""

    dataset: Dataset
    execution: Execution
    store: Store
    progress: Progress


def orders(insertion: Insertion, dataset: Dataset, execution: Execution) -> list[Order]:
    """The jobs of one game, at most `models_per_job` models each, in the order of `Play.portions`."""
    recipe, play, planting, seed = insertion.training, insertion.play, insertion.planting, insertion.seed.child("models")
    canaries = planting.canaries
    content = dataset_digest(dataset) + canaries_digest(canaries)
    initial = fitted_start(recipe.model, dataset, canaries, seed, execution.device)
    signals = play.signals(play.trained_for.released, set() if canaries.are_gradients else {Logits()})
    steps, running = event_reading.steps(recipe.run_event), code.digest(execution.foreign)
    copies, looks, jobs = with_copies(canaries), checkpoints(play, canaries, steps), []
    complete = with_companions(dataset, canaries)
    for rows in play.portions(execution.models_per_job):
        make = functools.partial(
            TrainingJob,
            included=np.repeat(planting.included[rows.start : rows.stop], canaries.copies, axis=1),
            seeds=tuple(seed.child("model", row) for row in rows),
            mechanism=recipe.run_event,
            model=recipe.model,
            optimizer=recipe.optimizer,
            access=play.trained_for,
            device=execution.device,
            start=initial,
            checkpoints=looks,
        )
        job = make(dataset=complete, canaries=copies)
        order = Order(
            key=job_key(job, recipe.trainer, content, signals, running),
            trainer=recipe.trainer,
            job=make,
            rows=rows,
            steps=steps,
            code=running,
            foreign=execution.foreign,
            signals=signals,
        )
        jobs.append(order)
    return jobs


def checkpoints(play: Play, canaries: Canaries, steps: int) -> tuple[int, ...]:
    """The steps after which records are looked at: evenly spread, the last included; none where nobody sees them."""
    if "steps" not in play.trained_for.released or canaries.are_gradients:
        return ()
    return spread_over(steps)


def spread_over(steps: int) -> tuple[int, ...]:
    """At most `CHECKPOINTS` numbers of steps, evenly spread, the last included."""
    return tuple(sorted({max(1, round(steps * (i + 1) / CHECKPOINTS)) for i in range(CHECKPOINTS)}))


def train(orders: Sequence[Order], canaries: Canaries, resources: Resources, is_enough: Callable[[int], bool]) -> int:
    """Return how many of the jobs count, from the first: all, or as many as were enough.

    Jobs that the store holds are not run again, others are stored as they finish. `is_enough` is asked in the order of jobs,
    so where it ends does not depend on which finished first, or in which process: a job that finished ahead of its turn
    waits, and one behind the end does not count even if it was trained.

    Args:
        orders: the jobs in their order.
        canaries: that all of them are about.
        is_enough: whether the first so many jobs, all of them stored, are enough.
    """
    store, executor = resources.store, resources.execution.executor
    lacking = {order.key for order in orders if not store.intact(order.key)}
    missing = [order for order in orders if order.key in lacking]
    ledger = _Steps(total=sum(order.models * order.steps for order in orders), progress=resources.progress)
    ledger(sum(order.models * order.steps for order in orders if order.key not in lacking))
    queue = _InOrder(keys=[order.key for order in orders], lacking=lacking, is_enough=is_enough)
    if queue.advance():
        ledger.close()
        return queue.count
    with closing(executor.map(fit_and_observe, (resources.dataset, canaries), missing, ledger)) as results:
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
    is_enough: Callable[[int], bool]
    count: int = 0

    def advance(self) -> bool:
        """True if the jobs that count are known."""
        while self.count < len(self.keys) and self.keys[self.count] not in self.lacking:
            self.count += 1
            if self.is_enough(self.count):
                return True
        return self.count == len(self.keys)


@dataclass(slots=True, kw_only=True)
class _Steps:
    """Passes progress on and says at the end that what was not needed is done with."""

    total: int
    progress: Progress
    reported_steps: int = 0

    def __call__(self, steps: int) -> None:
        self.reported_steps += steps
        self.progress(steps)

    def close(self) -> None:
        if self.reported_steps < self.total:
            self.progress(self.total - self.reported_steps)
