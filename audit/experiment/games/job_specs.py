"""The jobs of one game, each with the hash of all that decides its result, and the steps at which records are looked at."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from attacks.signals.logits import Logits
from audit.core import coins, event_reading
from audit.core.access import Access
from audit.core.canaries import Canaries
from audit.core.data import Array, Dataset
from audit.core.events import sgd
from audit.core.seeds import Seed, separate_seeds
from audit.core.training import TrainingJob
from audit.execution import code
from audit.experiment.games.job import JobSpec, canaries_digest, dataset_digest, job_key, with_companions, with_copies
from audit.experiment.games.prepared_game import PreparedGame
from audit.experiment.games.spec import Execution, GameDesign

# Initial weights that the adversary chose: those of a model that already fits the records every model shares.
BATCH = 64
OPTIMIZER = {"kind": "adam", "learning_rate": 1e-3}


def fitted_start(
    model: Mapping[str, Any], dataset: Dataset, canaries: Canaries, seed: Seed, device: str
) -> Mapping[str, Array] | None:
    """Weights after the canaries' `fitted_start` steps of training without privacy and without any canary; None for 0 steps.

    The claim of DP-SGD holds from any initial weights. If the shared records are fitted already, their gradients are small and
    the canary's is what moves the model (Annamalai and De Cristofaro 2024, arXiv 2405.14106).
    """
    if canaries.payload.fitted_start == 0:
        return None
    from audit.engine.ensemble import train

    rate = min(1.0, BATCH / len(dataset.train))
    job = TrainingJob(
        dataset=dataset,
        canaries=canaries,
        included=np.zeros((1, len(canaries)), dtype=bool),
        seeds=(seed.child("fitted start"),),
        mechanism=sgd(sample_rate=rate, steps=canaries.payload.fitted_start),
        model=model,
        optimizer=OPTIMIZER,
        access=Access.FINAL_MODEL,
        device=device,
    )
    return {name: value[0] for name, value in train(job, lambda steps: None).weights.items()}


CHECKPOINTS = 8


def make_job_specs(prepared_game: PreparedGame, dataset: Dataset, execution: Execution) -> list[JobSpec]:
    """The jobs of one game, at most `models_per_job` models each, in the order of `GameDesign.portions`."""
    training_design, game_design = prepared_game.training, prepared_game.game_design
    canaries, seed = prepared_game.assignment.canaries, prepared_game.seed.child("models")
    content = dataset_digest(dataset) + canaries_digest(canaries)
    initial = fitted_start(training_design.model, dataset, canaries, seed, execution.device)
    signals = game_design.signals(game_design.trained_for.released, set() if canaries.are_gradients else {Logits()})
    steps, running = event_reading.steps(training_design.run_event), code.digest(execution.foreign)
    copies, looks, jobs = with_copies(canaries), checkpoints(game_design, canaries, steps), []
    complete = with_companions(dataset, canaries)
    seeds = separate_seeds(seed.child("model", row) for row in range(game_design.models))
    for rows in game_design.portions(execution.models_per_job):
        make = functools.partial(
            _training_job,
            included=coins.take_models(prepared_game.assignment.included, slice(rows.start, rows.stop)),
            copies=canaries.payload.copies,
            seeds=seeds[rows.start : rows.stop],
            mechanism=training_design.run_event,
            model=training_design.model,
            optimizer=training_design.optimizer,
            loss=training_design.loss,
            access=game_design.trained_for,
            device=execution.device,
            start=initial,
            checkpoints=looks,
        )
        job = make(dataset=complete, canaries=copies)
        job_spec = JobSpec(
            key=job_key(job, training_design.trainer, content, signals, running),
            trainer=training_design.trainer,
            job=make,
            rows=rows,
            steps=steps,
            code=running,
            foreign=execution.foreign,
            signals=signals,
        )
        jobs.append(job_spec)
    return jobs


def _training_job(*, included: Any, copies: int, **fields: Any) -> TrainingJob:
    """A training job with the coins of each copy of a canary, which become an array where the job is done."""
    own = np.asarray(included, dtype=bool)
    return TrainingJob(included=own if copies == 1 else np.repeat(own, copies, axis=1), **fields)


def checkpoints(game_design: GameDesign, canaries: Canaries, steps: int) -> tuple[int, ...]:
    """The steps after which records are looked at: evenly spread, the last included; none if no one sees them."""
    if "steps" not in game_design.trained_for.released or canaries.are_gradients:
        return ()
    return spread_over(steps)


def spread_over(steps: int) -> tuple[int, ...]:
    """At most `CHECKPOINTS` numbers of steps, evenly spread, the last included."""
    return tuple(sorted({max(1, round(steps * (i + 1) / CHECKPOINTS)) for i in range(CHECKPOINTS)}))
