"""The results that an audit can show and its costs, before it is run: ceilings, power, time and disk."""

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attacks.signals.logits import Logits
from audit.bounds import power, simulation
from audit.bounds.budget import Budget, bounds
from audit.core import event_reading
from audit.core.claims import Claim, Detectable
from audit.core.data import Dataset
from audit.core.lower_bounds import LowerBound
from audit.core.phrases import phrase
from audit.core.plans import CeilingRow, PowerRow, RunPlan, StoppingRow, Timing
from audit.core.tables import Table
from audit.core.views import Scores
from audit.experiment.games import hypothesis
from audit.experiment.games.job_specs import JobSpec, fit_and_observe, make_job_specs
from audit.experiment.games.prepared_game import PreparedGame, insert, prepare_games
from audit.experiment.games.spec import AuditDesign, AuditInputs, Execution, Experiment, GameDesign
from audit.experiment.line.rehearsal import playable

# bytes of each model and record, beside the signals of all models but one
_SCRATCH = 8 + 1  # a loss and a coin
_CONFIDENCE = 8  # made once of outputs that are kept whole, and copied like a signal for all models but one


def bytes_needed(design: AuditDesign, audit_inputs: AuditInputs) -> int:
    """Return an upper estimate of what the folder of a run takes, in bytes."""
    classes = audit_inputs.dataset.outputs
    total = 0
    for training_design, game_design in design.trainings:
        steps = event_reading.steps(training_design.run_event)
        signals = game_design.signals(game_design.trained_for.released, {Logits()})
        signal_bytes = game_design.count * 4 * sum(signal.size(classes, steps) for signal in signals)
        model = 2 * (audit_inputs.parameters * 4 + signal_bytes + steps * 8)
        scratch = _SCRATCH + (_CONFIDENCE if classes and Logits() in signals else 0)
        total += game_design.models * (model + signal_bytes + game_design.count * scratch)
    return total


PILOT, NEEDED_DRAWS = 10, 50  # simulated audits at each number of scores: where the search begins, and where it ends
PROOFS = 41  # simulated audits behind the median number of runs to a proof


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerStudy:
    """What is asked of every game of an audit.

    Attributes:
        violation: the true epsilon that the audit is to catch, as a multiple of the claim.
        seconds: of training for each (recipe, game), as far as known.
        ceilings: of each (recipe, game, estimator).
    """

    budget: Budget
    claims: Mapping[str, Sequence[Claim]]
    violation: float
    seconds: Mapping[tuple[str, str], float]
    ceilings: Mapping[tuple[str, str, str], float]

    def rows(self, prepared_game: PreparedGame) -> list[PowerRow]:
        """Return a row for each estimator of a game that is quick enough to simulate."""
        training_design, game_design = prepared_game.training, prepared_game.game_design
        path = self._path(prepared_game)
        claims = tuple(self.claims.get(training_design.name, ()))
        hours = self.seconds.get((training_design.name, game_design.name), math.nan) / 3600
        rows = []
        for estimator in path.estimators:
            alone = replace(path, attacks=((estimator,),))
            for detectable in simulation.detectable(alone, claims, patient=True):
                row = PowerRow(
                    mechanism=training_design.name,
                    game=game_design.name,
                    estimator=detectable.estimator,
                    family=detectable.family,
                    claim=detectable.claim,
                    epsilon=detectable.epsilon,
                    power=detectable.power,
                    draws=detectable.draws,
                    ceiling=self.ceilings[training_design.name, game_design.name, detectable.estimator],
                    runs_to_proof=_runs_to_proof(alone, detectable, claims) if game_design.stops else None,
                    hours=None if math.isnan(hours) else hours,
                )
                rows.append(_with_needs(row, alone, game_design, self.violation))
        return rows

    def _path(self, prepared_game: PreparedGame) -> simulation.Path:
        return simulation.Path(
            attacks=tuple(attack.estimators for attack in prepared_game.game_design.attacks),
            game=prepared_game.game,
            mechanism=prepared_game.mechanism,
            delta=self.budget.delta,
            level=self.budget.level,
            together=prepared_game.game_design.stops,
        )


def _with_needs(row: PowerRow, path: simulation.Path, game_design: GameDesign, violation: float) -> PowerRow:
    """The row with scores, runs and hours that catch a true epsilon of `violation` times the claim."""
    if row.claim <= 0:
        return row
    truth = violation * row.claim
    scores: int | None = 16
    for draws in (PILOT, NEEDED_DRAWS):
        question = power.Question(
            delta=path.delta, confidence=path.level, claim=row.claim, power=row.power, draws=min(row.draws, draws)
        )
        if scores is not None:
            scores = power.scores_needed(path.estimators[0], path.game, truth, question, path.mechanism, start=scores)
    runs = None if scores is None else scores if game_design.count == 1 else game_design.runs
    cost = None if runs is None or row.hours is None else row.hours * (runs + game_design.references) / game_design.models
    return replace(row, violation=truth, needed=scores, needed_runs=runs, needed_hours=cost)


def _runs_to_proof(path: simulation.Path, detectable: Detectable, claims: Sequence[Claim]) -> float | None:
    """Median runs until the claim is refuted at the least epsilon that is caught; None if nothing is."""
    claim = next((claim for claim in claims if claim.epsilon == detectable.claim), None)
    if claim is None or math.isinf(detectable.epsilon):
        return None
    question = power.Question(delta=path.delta, confidence=path.level, claim=detectable.claim, draws=PROOFS)
    query = power.PowerQuery(estimator=path.estimators[0], game=path.game, question=question, mechanism=path.mechanism)
    return power.runs_to_proof(query, detectable.epsilon, claim)


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
