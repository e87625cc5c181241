"""How long an audit will train, from a few measured steps of its own jobs on this machine."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace

from audit.core import event_reading
from audit.core.data import Dataset
from audit.core.plans import Timing
from audit.experiment.games.insertion import Insertion, insert
from audit.experiment.games.job import Order, fit_and_observe
from audit.experiment.games.orders import orders
from audit.experiment.games.spec import AuditDesign, Execution, Material, Play, Recipe

TARGET_SECONDS = 2.0
PATIENCE_SECONDS = 5.0


def estimate(
    design: AuditDesign, material: Material, execution: Execution, clock: Callable[[], float] = time.perf_counter
) -> list[Timing]:
    """The time of each training; trains a few steps of one job of each and keeps nothing."""
    timings = []
    for recipe, game in design.trainings:
        insertion = insert(recipe, game, material, material.seed.child("timing"))
        timings.append(_timing_of(insertion, material.dataset, execution, clock))
    return timings


def _timing_of(insertion: Insertion, dataset: Dataset, execution: Execution, clock: Callable[[], float]) -> Timing:
    recipe, game, planting = insertion.training, insertion.play, insertion.planting
    context = (dataset, planting.canaries)
    jobs = orders(insertion, dataset, execution)
    first, total = max(jobs, key=lambda order: order.models), event_reading.steps(recipe.run_event)

    def seconds(order: Order, steps: int) -> float:
        job = functools.partial(order.job, mechanism=event_reading.first_steps(recipe.run_event, steps))
        start = clock()
        fit_and_observe(context, replace(order, job=job), lambda steps: None)
        return clock() - start

    single = functools.partial(first.job, included=planting.included[:1], seeds=first.job.keywords["seeds"][:1])
    alone = replace(first, job=single, rows=range(1))
    first_seconds = seconds(alone, 1)
    if first_seconds > PATIENCE_SECONDS:  # the first job of a process also loads libraries
        first_seconds = min(first_seconds, seconds(alone, 1))
    if first_seconds > PATIENCE_SECONDS or total == 1:
        return _timing(recipe, game, seconds=first_seconds * total * game.models, measurement=(1, 1))
    first_seconds, steps, extra_seconds = seconds(first, 1), 1, 0.0
    while steps < total and extra_seconds < TARGET_SECONDS:
        steps = min(total, 8 * steps)
        extra_seconds = seconds(first, steps)
    step = max(0.0, (extra_seconds - first_seconds) / max(steps - 1, 1))
    overhead = max(0.0, first_seconds - step)
    portions = game.models / first.models
    return _timing(recipe, game, seconds=portions * (overhead + step * total), measurement=(steps, first.models))


def _timing(recipe: Recipe, game: Play, *, seconds: float, measurement: tuple[int, int]) -> Timing:
    steps, together = measurement
    return Timing(mechanism=recipe.name, game=game.name, seconds=seconds, models=game.models, steps=steps, together=together)
