"""The jobs of a game: models trained together, all that later steps read of them, and the hash of what decides each result."""

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from attacks.signals.logits import Logits
from audit.core import coins, event_reading
from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords, PlantedRecords
from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError, ObservationError
from audit.core.events import sgd
from audit.core.models import Reduction, Signal
from audit.core.protocols import Trainer
from audit.core.record_arrays import RecordArray, concatenate
from audit.core.seeds import Seed, separate_seeds
from audit.core.training import Progress, TrainingJob
from audit.core.version import __version__
from audit.execution import code
from audit.experiment.games.prepared_game import PreparedGame
from audit.experiment.games.spec import Execution, GameDesign
from audit.experiment.games.utility_figures import compute_utility

SIGNAL = "signal/"  # in front of a signal's key, among the arrays of a stored job
TEST_FIGURE = "test/"  # in front of the name of a figure of the outputs for test records
_ROWS = 4096  # records at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobSpec:
    """One job, small enough to be sent anywhere: what all jobs of a game share travels apart.

    Attributes:
        key: of its result in the store.
        job: makes the training job from `dataset` and `canaries`.
        rows: numbers of the models that it trains together, among all of the game.
        code: digest of the code that the key represents, `foreign` third-party modules included; the same on every machine.
        signals: read off the models, in this order.
    """

    key: str
    trainer: Trainer
    job: functools.partial[TrainingJob]
    rows: range
    steps: int
    code: str
    foreign: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ()

    @property
    def models(self) -> int:
        return len(self.rows)


def fit_and_observe(
    context: tuple[Any, ...], job_spec: JobSpec, progress: Progress, device: str | None = None
) -> Mapping[str, Array]:
    """Train the models of one job and return all signals that later steps need, by key; runs wherever the executor says.

    A model with weights or outputs that are not finite has diverged. All its signals become zero, the same for every record: a
    function of what was released, so bounds stay valid, and one that shows an attack nothing.

    Args:
        context: the data set and the canaries.
        device: in place of the job's.

    Raises:
        ConfigError: this machine's code is not the code that the job was made with.
        DataError: a file that records are read from was changed meanwhile.
    """
    own = code.digest(job_spec.foreign)
    if job_spec.code != own:
        modules = ", ".join(("epsilon-audit", *job_spec.foreign))
        raise ConfigError(
            f"a worker's code (digest {own[:12]}) is not the driver's ({job_spec.code[:12]}); "
            f"install the same version of {modules} on every machine"
        )
    dataset, canaries = context
    check_files(dataset, canaries)
    job = job_spec.job(dataset=with_companions(dataset, canaries), canaries=with_copies(canaries))
    if device is not None:
        job = replace(job, device=device)
    subject = job_spec.trainer.fit(job, progress)
    if subject.executed is None:
        raise ObservationError(
            f"trainer {type(job_spec.trainer).__name__} measured nothing of what it did; give Subject.executed"
        )
    value: dict[str, Array] = {f"weights/{name}": array for name, array in subject.weights.items()}
    test_outputs = subject.outputs(dataset.test.inputs)
    value |= {f"{SIGNAL}{key}": array for key, array in subject.read(job_spec.signals, canaries).items()}
    for name, value_of in asdict(subject.executed).items():
        value[f"executed/{name}"] = np.asarray(value_of)
    check_files(dataset, canaries)  # before what was made of changed records is kept
    reductions = [signal for signal in job_spec.signals if isinstance(signal, Reduction)]
    value = _isolate(value, reductions, canaries, test_outputs)
    figures = compute_utility(dataset, test_outputs, value["diverged"])
    return {**value, **{f"{TEST_FIGURE}{name}": figure for name, figure in figures.items()}}


def check_files(dataset: Dataset, canaries: Canaries) -> None:
    """Raise `DataError` if records are read from a file that was changed."""
    for array in (dataset.train.inputs, dataset.test.inputs, *canaries.payload.arrays):
        if isinstance(array, RecordArray):
            array.check_files()


def with_copies(canaries: Canaries) -> Canaries:
    """The canaries as they are trained on: the records planted for each, or its copies, those of one canary together."""
    payload = canaries.payload
    if isinstance(payload, PlantedRecords):
        return replace(canaries, payload=CanaryRecords(records=payload.planted), secrets=None)
    if payload.copies == 1:
        return canaries
    return replace(canaries, payload=payload.take(np.repeat(np.arange(len(canaries)), payload.copies)))


def with_companions(dataset: Dataset, canaries: Canaries) -> Dataset:
    """Return the data set with its training records joined by those that come with the canaries."""
    extra = canaries.payload.companions
    if extra is None:
        return dataset
    inputs = concatenate([dataset.train.inputs, extra.inputs])
    return replace(dataset, train=Records(inputs=inputs, labels=np.concatenate([dataset.train.labels, extra.labels])))


def _isolate(
    value: dict[str, Array], reductions: Sequence[Reduction], canaries: Canaries, test_outputs: Array
) -> dict[str, Array]:
    """The same with `diverged` `(N,)`, and zero signals if it is true; of reductions, their value for zero outputs."""
    names = [name for name in value if name.startswith(SIGNAL)]
    arrays = [test_outputs, *(value[name] for name in value if name.startswith((SIGNAL, "weights/")))]
    non_finite = np.zeros(len(test_outputs), dtype=bool)
    for array in arrays:
        non_finite |= ~np.isfinite(array).reshape(len(non_finite), -1).all(axis=1)
    if non_finite.any():
        classes = test_outputs.shape[-1]
        of_zeros = {f"{SIGNAL}{signal.key}": _reduce_zeros(signal, value, canaries, classes) for signal in reductions}
        for name in names:
            keep = ~non_finite.reshape(-1, *[1] * (value[name].ndim - 1))
            value[name] = np.where(keep, value[name], of_zeros.get(name, np.zeros_like(value[name][:1])))
    return {**value, "diverged": non_finite}


def _reduce_zeros(reduction: Reduction, value: Mapping[str, Array], canaries: Canaries, classes: int) -> Array:
    """Return what a reduction makes of outputs that are all zero, `(1, m)`."""
    name = f"{SIGNAL}{reduction.key}"
    if name not in value or canaries.records is None:
        return np.zeros((1, 0))
    labels, zeros = canaries.records.labels, np.zeros((1, _ROWS, classes), dtype=np.float32)
    parts = [labels[start : start + _ROWS] for start in range(0, len(labels), _ROWS)]
    values = [reduction.reduce(zeros[:, : len(part)], zeros[:, 0], part) for part in parts]
    return np.concatenate(values, axis=1)


def job_key(job: TrainingJob, trainer: Trainer, content: str, signals: Sequence[Signal], code_digest: str) -> str:
    """The hash of everything that decides a job's result."""
    identity = {
        "version": __version__,
        "code": code_digest,
        "content": content,
        "included": hashlib.sha256(np.packbits(job.included).tobytes()).hexdigest(),
        "seeds": [(seed.root, seed.path) for seed in job.seeds],
        "mechanism": repr(job.mechanism),
        "trainer": repr(trainer),
        "model": dict(job.model),
        "optimizer": dict(job.optimizer),
        "loss": job.loss,
        "access": job.access.name,
        "checkpoints": job.checkpoints,
        "signals": [repr(signal) for signal in signals],
        "device": job.device.split(":", maxsplit=1)[0],
    }
    if isinstance(inputs := job.model.get("inputs"), Mapping):
        identity["order of inputs"] = list(inputs)  # decides how records are cut
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=repr).encode()).hexdigest()[:32]


def dataset_digest(dataset: Dataset) -> str:
    digest = hashlib.sha256()
    for records in (dataset.train, dataset.test):
        _add(digest, records.inputs)
        _add(digest, records.labels)
    return digest.hexdigest()


def _add(digest: Any, values: Any) -> None:
    """Adds the numbers of an array: the same wherever and in whatever type they are until they are asked for."""
    for part in values.parts() if isinstance(values, RecordArray) else [values]:
        digest.update(np.ascontiguousarray(part).data)


def canaries_digest(canaries: Canaries) -> str:
    digest = hashlib.sha256(f"{canaries.kind}:{canaries.payload.copies}:{canaries.payload.fitted_start}".encode())
    if canaries.behaviour is not None:
        digest.update(repr(canaries.behaviour).encode())
    for array in canaries.payload.arrays:
        _add(digest, array)
    return digest.hexdigest()


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
