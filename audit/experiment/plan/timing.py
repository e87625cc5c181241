"""How long an audit will train, from a few measured its own steps jobs on this machine."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace

from audit.core import event_reading
from audit.core.data import Dataset
from audit.core.plans import Timing
from audit.experiment.games.job import JobSpec, fit_and_observe
from audit.experiment.games.job_specs import make_job_specs
from audit.experiment.games.prepared_game import PreparedGame, insert
from audit.experiment.games.spec import AuditDesign, AuditInputs, Execution, GameDesign, TrainingDesign

TARGET_SECONDS = 2.0
PATIENCE_SECONDS = 5.0


def estimate(
    design: AuditDesign, audit_inputs: AuditInputs, execution: Execution, clock: Callable[[], float] = time.perf_counter
) -> list[Timing]:
    """The time of each training; trains a few steps of one job of each and keeps nothing."""
    timings = []
    for training_design, game in design.trainings:
        prepared_game = insert(training_design, game, audit_inputs, audit_inputs.seed.child("timing"))
        timings.append(_measure_game(prepared_game, audit_inputs.dataset, execution, clock))
    return timings


def _measure_game(prepared_game: PreparedGame, dataset: Dataset, execution: Execution, clock: Callable[[], float]) -> Timing:
    training_design, game, assignment = prepared_game.training, prepared_game.game_design, prepared_game.assignment
    context = (dataset, assignment.canaries)
    jobs = make_job_specs(prepared_game, dataset, execution)
    first, total = max(jobs, key=lambda job_spec: job_spec.models), event_reading.steps(training_design.run_event)

    def seconds(job_spec: JobSpec, steps: int) -> float:
        job = functools.partial(job_spec.job, mechanism=event_reading.first_steps(training_design.run_event, steps))
        start = clock()
        fit_and_observe(context, replace(job_spec, job=job), lambda steps: None)
        return clock() - start

    single = functools.partial(first.job, included=assignment.included[:1], seeds=first.job.keywords["seeds"][:1])
    alone = replace(first, job=single, rows=range(1))
    first_seconds = seconds(alone, 1)
    if first_seconds > PATIENCE_SECONDS:  # the first job of a process also loads libraries
        first_seconds = min(first_seconds, seconds(alone, 1))
    if first_seconds > PATIENCE_SECONDS or total == 1:
        return _timing(training_design, game, seconds=first_seconds * total * game.models, measurement=(1, 1))
    first_seconds, steps, extra_seconds = seconds(first, 1), 1, 0.0
    while steps < total and extra_seconds < TARGET_SECONDS:
        steps = min(total, 8 * steps)
        extra_seconds = seconds(first, steps)
    step = max(0.0, (extra_seconds - first_seconds) / max(steps - 1, 1))
    overhead = max(0.0, first_seconds - step)
    portions = game.models / first.models
    return _timing(training_design, game, seconds=portions * (overhead + step * total), measurement=(steps, first.models))


def _timing(training_design: TrainingDesign, game: GameDesign, *, seconds: float, measurement: tuple[int, int]) -> Timing:
    steps, together = measurement
    return Timing(
        mechanism=training_design.name, game=game.name, seconds=seconds, models=game.models, steps=steps, together=together
    )
