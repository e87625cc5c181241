"""How long an audit will train, from a few measured steps of its own jobs on this machine."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from audit.core import event_reading
from audit.core.seeds import Seed
from audit.experiment.insertion import Insertion, plant
from audit.experiment.job import Order, fit_and_observe
from audit.experiment.spec import Experiment, Play, Recipe
from audit.experiment.train import orders

TARGET_SECONDS = 2.0
PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The time of one game's trainings on one recipe, one job after another on this machine.

    Attributes:
        mechanism: the recipe.
        game: and what is played on it.
        seconds: of training and observing all its models.
        models: that are trained.
        steps: of a job that were measured.
        together: models in the measured job; 1 where already one step of one model took long, and `seconds` is
            then too high, since models trained together share work.
    """

    mechanism: str
    game: str
    seconds: float
    models: int
    steps: int
    together: int


def estimate(experiment: Experiment, clock: Callable[[], float] = time.perf_counter) -> list[Timing]:
    """The time of each training; trains a few steps of one job of each and keeps nothing."""
    return [_pair(experiment, recipe, game, clock) for recipe, game in experiment.trainings]


def _pair(experiment: Experiment, recipe: Recipe, game: Play, clock: Callable[[], float]) -> Timing:
    dataset = experiment.dataset
    planting = plant(dataset, game, experiment.parameters, Seed(experiment.seed.root).child("timing"))
    context = (dataset, planting.canaries)
    seed = experiment.seed.child(f"recipe:{recipe.trained_as}").child(f"game:{game.name}")
    insertion = Insertion(
        recipe=recipe.name, mechanism=recipe.mechanism, play=game, seed=seed, planting=planting, executed=recipe.executed
    )
    order_list = orders(insertion, recipe, dataset, experiment.execution)
    first, total = max(order_list, key=lambda order: order.models), event_reading.steps(recipe.run_event)

    def seconds(order: Order, steps: int) -> float:
        job = functools.partial(order.job, mechanism=event_reading.first_steps(recipe.run_event, steps))
        start = clock()
        fit_and_observe(context, replace(order, job=job), lambda steps: None)
        return clock() - start

    single = functools.partial(first.job, included=planting.included[:1], seeds=first.job.keywords["seeds"][:1])
    alone = replace(first, job=single, models=1)
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
    jobs = game.models / first.models
    return _timing(recipe, game, seconds=jobs * (overhead + step * total), measurement=(steps, first.models))


def _timing(recipe: Recipe, game: Play, *, seconds: float, measurement: tuple[int, int]) -> Timing:
    steps, together = measurement
    return Timing(mechanism=recipe.name, game=game.name, seconds=seconds, models=game.models, steps=steps, together=together)
