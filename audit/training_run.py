"""From plantings to what was observed of the trained models: jobs, the store, gathering.

A job trains some models of one game together and keeps only what later steps read. Its key is the
hash of everything that decides its result, so a finished job is never run again.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit import __version__
from audit.core.errors import ObservationError
from audit.core.game import Access
from audit.core.protocols import Executor, Progress, Trainer, TrainingJob
from audit.core.records import Array, Canaries, Dataset, Executed, Planting, TrainedModels
from audit.core.seeds import Seed
from audit.design import Experiment, Play, Recipe
from audit.store import Store


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Order:
    """One job with the trainer that does it and the key of its result."""

    key: str
    trainer: Trainer
    job: TrainingJob
    classes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """What was seen of all models of a game, targets first.

    Attributes:
        canary_logits: `(models, m, classes)`, None for gradient canaries.
        test_logits: `(models, n, classes)`.
        products: `(models, m, steps)`, None unless all steps were seen.
    """

    canary_logits: Array | None
    test_logits: Array
    products: Array | None
    executed: Executed


def orders(experiment: Experiment, recipe: Recipe, game: Play, planting: Planting) -> list[Order]:
    """The jobs of one game on one recipe, at most `models_per_job` models each."""
    seed = model_seed(experiment, recipe, game)
    content = dataset_digest(experiment.dataset) + canaries_digest(planting.canaries)
    found = []
    for start in range(0, game.models, experiment.models_per_job):
        rows = range(start, min(start + experiment.models_per_job, game.models))
        job = TrainingJob(
            dataset=experiment.dataset,
            canaries=planting.canaries,
            included=planting.included[rows.start : rows.stop],
            seeds=tuple(seed.child("model", row) for row in rows),
            mechanism=recipe.mechanism,
            model=recipe.model,
            optimizer=recipe.optimizer,
            access=game.access,
            device=experiment.device,
        )
        key = job_key(job, recipe.trainer, content)
        found.append(Order(key=key, trainer=recipe.trainer, job=job, classes=experiment.dataset.classes))
    return found


def model_seed(experiment: Experiment, recipe: Recipe, game: Play) -> Seed:
    """The stream below which each model of a game on a recipe has its own."""
    return experiment.seed.child(f"recipe:{recipe.name}").child(f"game:{game.name}").child("models")


def train(found: Sequence[Order], store: Store, executor: Executor, progress: Progress) -> Observed:
    """What was observed of all models; jobs that the store holds are not run again."""
    missing = [order for order in found if not store.holds(order.key)]
    done = sum(len(order.job.seeds) * order.job.mechanism.steps for order in found if order not in missing)
    progress(done)
    for order, value in zip(missing, executor.map(fit_and_observe, missing, progress), strict=True):
        store.arrays(order.key, lambda value=value: value)  # type: ignore[misc]
    parts = []
    for order in found:
        parts.append(store.arrays(order.key, lambda order=order: fit_and_observe(order, progress)))  # type: ignore[misc]
    return gather(parts)


def fit_and_observe(order: Order, progress: Progress) -> Mapping[str, Array]:
    """Trains the models of one job and reads off them all that later steps need; runs wherever the executor says."""
    from audit.training import observe

    models = order.trainer.fit(order.job, progress)
    read = _reader(observe, order, models)
    value: dict[str, Array] = {f"weights/{name}": array for name, array in models.weights.items()}
    value["test_logits"] = read(order.job.dataset.test.inputs)
    if order.job.canaries.records is not None:
        value["canary_logits"] = read(order.job.canaries.records.inputs)
    if order.job.access is Access.ALL_STEPS and order.job.canaries.are_gradients:
        if models.products is None:
            raise ObservationError(f"{type(order.trainer).__name__} recorded no gradient products; this game needs all steps")
        value["products"] = models.products
    if order.job.access is Access.FINAL_WEIGHTS and order.job.canaries.are_gradients and models.initial is not None:
        value["products"] = observe.weight_products(models.initial, models.weights, order.job.canaries)[..., None]
    for name, found in asdict(models.executed).items():
        value[f"executed/{name}"] = np.asarray(found)
    return value


def _reader(observe: Any, order: Order, models: TrainedModels) -> Any:
    def read(inputs: Array) -> Array:
        found: Array = observe.logits(order.job.model, models.weights, inputs, order.classes, device=order.job.device)
        return found

    return read


def gather(parts: Sequence[Mapping[str, Array]]) -> Observed:
    """The jobs' results as one, models in order."""

    def joined(name: str) -> Array | None:
        return np.concatenate([part[name] for part in parts]) if name in parts[0] else None

    def needed(name: str) -> Array:
        array = joined(name)
        if array is None:
            raise ObservationError(f"a stored job lacks '{name}'; it was written by another version, start a new run")
        return array

    executed = Executed(
        steps=int(parts[0]["executed/steps"]),
        noise_draws=int(parts[0]["executed/noise_draws"]),
        **{
            name: needed(f"executed/{name}")
            for name in ("batch_sizes", "population", "noise_multiplier", "largest_norm", "skipped")
        },
    )
    return Observed(
        canary_logits=joined("canary_logits"),
        test_logits=needed("test_logits"),
        products=joined("products"),
        executed=executed,
    )


def job_key(job: TrainingJob, trainer: Trainer, content: str) -> str:
    """The hash of everything that decides a job's result."""
    identity = {
        "version": __version__,
        "code": code_digest(),
        "content": content,
        "included": hashlib.sha256(np.packbits(job.included).tobytes()).hexdigest(),
        "seeds": [(seed.root, seed.path) for seed in job.seeds],
        "mechanism": repr(job.mechanism),
        "trainer": repr(trainer),
        "model": dict(job.model),
        "optimizer": dict(job.optimizer),
        "access": job.access.value,
        "device": job.device.split(":", maxsplit=1)[0],
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=repr).encode()).hexdigest()[:32]


@functools.lru_cache(maxsize=1)
def code_digest() -> str:
    """The hash of the code that trains, so that a run resumed with other code does not mix two engines' models."""
    root = Path(__file__).resolve().parent
    files = sorted(path for folder in ("training", "trainers") for path in (root / folder).glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def dataset_digest(dataset: Dataset) -> str:
    """The hash of the records that models are trained and measured on."""
    digest = hashlib.sha256()
    for records in (dataset.train, dataset.test):
        digest.update(np.ascontiguousarray(records.inputs).data)
        digest.update(np.ascontiguousarray(records.labels).data)
    return digest.hexdigest()


def canaries_digest(canaries: Canaries) -> str:
    """The hash of what is planted."""
    digest = hashlib.sha256(canaries.kind.encode())
    forms = [canaries.coordinates, canaries.directions]
    if canaries.records is not None:
        forms += [canaries.records.inputs, canaries.records.labels]
    for form in forms:
        if form is not None:
            digest.update(np.ascontiguousarray(form).data)
    return digest.hexdigest()
