"""The results that an audit can show and its costs, before it is run: ceilings, power, time and disk."""

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from audit.bounds.budget import Budget, bounds
from audit.core import event_reading
from audit.core.data import Dataset
from audit.core.lower_bounds import LowerBound
from audit.core.phrases import phrase
from audit.core.plans import CeilingRow, RunPlan, StoppingRow, Timing
from audit.core.tables import Table
from audit.core.views import Scores
from audit.experiment.games import hypothesis
from audit.experiment.games.job import JobSpec, fit_and_observe
from audit.experiment.games.job_specs import make_job_specs
from audit.experiment.games.prepared_game import PreparedGame, insert, prepare_games
from audit.experiment.games.spec import AuditDesign, AuditInputs, Execution, Experiment
from audit.experiment.line.rehearsal import playable
from audit.experiment.plan.disk import bytes_needed
from audit.experiment.plan.plan_power import PowerStudy

# How long an audit will train, from a few measured its own steps jobs on this machine.
TARGET_SECONDS = 2.0
PATIENCE_SECONDS = 5.0


def estimate(
    design: AuditDesign, audit_inputs: AuditInputs, execution: Execution, clock: Callable[[], float] = time.perf_counter
) -> list[Timing]:
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
    timing = functools.partial(Timing, mechanism=training_design.name, game=game.name, models=game.models)

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
        return timing(seconds=first_seconds * total * game.models, steps=1, together=1)
    first_seconds, steps, extra_seconds = seconds(first, 1), 1, 0.0
    while steps < total and extra_seconds < TARGET_SECONDS:
        steps = min(total, 8 * steps)
        extra_seconds = seconds(first, steps)
    step = max(0.0, (extra_seconds - first_seconds) / max(steps - 1, 1))
    overhead = max(0.0, first_seconds - step)
    portions = game.models / first.models
    return timing(seconds=portions * (overhead + step * total), steps=steps, together=first.models)


def make_plan(
    experiment: Experiment, *, measure: bool = False, violation: float | None = None, most_parameters: float = math.inf
) -> RunPlan:
    """Return what an audit will do and the most it could show: each bound on perfectly separated scores.

    Args:
        experiment: the audit; if its model is left unmade, disk and the attacks that are left out are not known.
        measure: train a few steps of each game, and say how long all will take.
        most_parameters: of a model that is made to play the games on; of a larger one the attacks left out are not known.
        violation: true epsilon to be caught, as a multiple of the claim; None simulates no power.

    Raises:
        ConfigError: a game that cannot be played.
    """
    design, audit_inputs, budget = experiment.design, experiment.audit_inputs, experiment.budget
    is_made, is_small = bool(audit_inputs.parameters), audit_inputs.parameters <= most_parameters
    games = prepare_games(design, audit_inputs, budget.delta) if is_made and is_small else []
    games = playable(games, audit_inputs.dataset, experiment.execution.device)
    large = f"no game was played on untrained models, which have {audit_inputs.parameters:,} parameters; audit plan does it"
    samples = [insert(*pair, audit_inputs, audit_inputs.seed.child("plan")) for pair in design.pairs]
    ceilings = Table(_ceilings(samples, budget))
    claims = {training.name: hypothesis.state(training, budget.delta).claims for training in design.training_designs}
    times = estimate(design, audit_inputs, experiment.execution) if measure else []
    study = PowerStudy(
        budget=budget,
        claims=claims,
        violation=violation or 1.0,
        seconds={(row.mechanism, row.game): row.seconds for row in times},
        ceilings={(row.mechanism, row.game, row.estimator): row.ceiling for row in ceilings},
    )
    return RunPlan(
        models=design.models,
        model_steps=design.model_steps,
        bounds=budget.comparisons,
        level=budget.level,
        claims=claims,
        ceilings=ceilings,
        left_out=(
            *(() if is_small else (large,)),
            *(
                phrase("{training}, game {game}: {note}", training=game.training.name, game=game.game_design.name, note=note)
                for game in games
                for note in game.notes
            ),
        ),
        power=Table(() if violation is None else [row for prepared_game in samples for row in study.rows(prepared_game)]),
        stopping=Table(
            StoppingRow(mechanism=training.name, game=game.name, most_runs=game.runs)
            for training, game in design.pairs
            if game.stops
        ),
        timing=Table(times),
        peak_disk_bytes=bytes_needed(design, audit_inputs) if is_made else None,
    )


def _ceilings(games: Sequence[PreparedGame], budget: Budget) -> list[CeilingRow]:
    """The most that each estimator of each game could prove; games with the same terms are computed once."""
    rows: list[CeilingRow] = []
    computed: dict[str, tuple[LowerBound, ...]] = {}
    for prepared_game in games:
        training_design, game_design, game = prepared_game.training, prepared_game.game_design, prepared_game.game
        included = prepared_game.assignment.included[: game_design.runs].ravel()
        secrets = prepared_game.assignment.canaries.secrets
        prior = None if secrets is None else np.tile(secrets.prior.ravel(), game_design.runs)
        chances = None if prior is None else prior.tobytes()
        terms = repr((training_design.mechanism, game, game_design.estimators, len(included), int(included.sum()), chances))
        if terms not in computed:
            values = np.where(included, 1.0, -1.0) * (1 + np.arange(len(included)) / len(included))
            scores = Scores(values=values, included=included, game=game, mechanism=training_design.mechanism, prior=prior)
            computed[terms] = bounds(
                scores, game_design.estimators, delta=budget.delta, confidence=budget.level, seed=prepared_game.seed
            )
        rows += [
            CeilingRow(
                mechanism=training_design.name,
                game=game_design.name,
                estimator=bound.estimator,
                family=bound.family,
                ceiling=bound.ceiling,
                scores=len(included),
                bounds=1 if game_design.stops else sum(estimator in attack.estimators for attack in game_design.attacks),
            )
            for estimator, bound in zip(game_design.estimators, computed[terms], strict=True)
        ]
    return rows
