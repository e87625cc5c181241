"""From plantings to what was observed of the trained models: jobs, the store, gathering.

A job trains some models of one game together and keeps only what later steps read. Its key is the
hash of everything that decides its result, so a finished job is never run again.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.errors import ObservationError
from audit.core.protocols import Executor, Progress, TrainingJob
from audit.core.records import Array, Canaries, Dataset, Executed, Planting
from audit.core.seeds import Seed
from audit.design import Experiment, Play, Recipe
from audit.job import SIGNALS, Order, canaries_digest, code_digest, dataset_digest, fit_and_observe, job_key
from audit.store import Store


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """What was seen of all models of a game, targets first. Signals lie on disk and are read where they are used.

    Attributes:
        canary_logits: `(models, m, classes)`, None for gradient canaries.
        test_logits: `(models, n, classes)`.
        products: `(models, m, steps)`, None unless all steps were seen.
        diverged: `(models,)` true where a model did not stay finite; its signals are zero.
        executed: what the trainer did.
    """

    canary_logits: Array | None
    test_logits: Array
    products: Array | None
    diverged: Array
    executed: Executed


def orders(experiment: Experiment, recipe: Recipe, game: Play, planting: Planting) -> list[Order]:
    """The jobs of one game on one recipe, at most `models_per_job` models each."""
    seed = model_seed(experiment, recipe, game)
    content = dataset_digest(experiment.dataset) + canaries_digest(planting.canaries)
    found = []
    for start in range(0, game.models, experiment.models_per_job):
        rows = range(start, min(start + experiment.models_per_job, game.models))
        make = functools.partial(
            TrainingJob,
            included=planting.included[rows.start : rows.stop],
            seeds=tuple(seed.child("model", row) for row in rows),
            mechanism=recipe.mechanism,
            model=recipe.model,
            optimizer=recipe.optimizer,
            access=game.access,
            device=experiment.device,
        )
        job = make(dataset=experiment.dataset, canaries=planting.canaries)
        order = Order(
            key=job_key(job, recipe.trainer, content),
            trainer=recipe.trainer,
            job=make,
            models=len(rows),
            steps=recipe.mechanism.steps,
            code=code_digest(),
        )
        found.append(order)
    return found


def model_seed(experiment: Experiment, recipe: Recipe, game: Play) -> Seed:
    """The stream below which each model of a game on a recipe has its own."""
    return experiment.seed.child(f"recipe:{recipe.name}").child(f"game:{game.name}").child("models")


def train(
    found: Sequence[Order], shared: tuple[Dataset, Canaries], store: Store, executor: Executor, progress: Progress
) -> Observed:
    """What was observed of all models; jobs that the store holds are not run again, others are stored as they finish."""
    missing = [order for order in found if not store.intact(order.key)]
    progress(sum(order.models * order.steps for order in found if order not in missing))
    for index, value in executor.map(fit_and_observe, shared, missing, progress):
        store.put(missing[index].key, value)
    return gather([order.key for order in found], store)


def gather(keys: Sequence[str], store: Store) -> Observed:
    """The jobs' results as one, models in order; memory holds one job at a time."""
    small = [store.get(key, lambda name: not name.startswith("weights/") and name not in SIGNALS) for key in keys]

    def joined(name: str) -> Array:
        missing = [key for key, part in zip(keys, small, strict=True) if name not in part]
        if missing:
            raise ObservationError(f"stored job {missing[0]} lacks '{name}'; another version wrote it, start a new run")
        return np.concatenate([part[name] for part in small])

    executed = Executed(
        steps=int(small[0]["executed/steps"]),
        noise_draws=int(small[0]["executed/noise_draws"]),
        **{
            name: joined(f"executed/{name}")
            for name in ("batch_sizes", "population", "noise_multiplier", "largest_norm", "skipped")
        },
    )
    diverged = joined("diverged")
    signals = {name: _signal(name, keys, len(diverged), store) for name in SIGNALS}
    test_logits = signals.pop("test_logits")
    if test_logits is None:
        raise ObservationError("the stored jobs lack 'test_logits'; another version wrote them, start a new run")
    return Observed(**signals, test_logits=test_logits, diverged=diverged, executed=executed)


def _signal(name: str, keys: Sequence[str], models: int, store: Store) -> Array | None:
    """`(models, ...)` on disk, filled job by job; None where the jobs have no such signal."""
    whole: Array | None = None
    done = 0
    for key in keys:
        part = store.get(key, name.__eq__).get(name)
        if part is None:
            return None
        if whole is None:
            whole = store.scratch(f"{key}-{name}", (models, *part.shape[1:]), part.dtype)
        whole[done : done + len(part)] = part
        done += len(part)
    return whole
