"""A few models before any training, which answer for the many that a game will train."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attacks.signals._asking import ask_signals
from audit.core.access import Access
from audit.core.canaries import Canaries, CoordinateGradients
from audit.core.data import Array, Dataset, Records
from audit.core.errors import ObservationError
from audit.core.models import Representations, Signal
from audit.core.protocols import ModelMaker
from audit.core.seeds import Seed
from audit.core.training import Executed, TrainedModels, TrainingJob
from audit.experiment.games.spec import TrainingDesign

MODELS = 3  # a target and two references that differ; further references repeat these two
RECORDS = 32  # that the models are really asked about; what they say of these is repeated for all others
SEED = Seed(0).child("rehearsal")
_TEST_RECORDS = 4


def untrained_models(training_design: TrainingDesign, dataset: Dataset, device: str) -> Any:
    """`MODELS` models as they are initialised, for all games of a recipe: an `Ensemble`, or what a `ModelMaker` makes."""
    from audit.engine.read.subject import Ensemble
    from audit.engine.trial.model_source import ModelSource

    seeds = tuple(SEED.child("model", number) for number in range(MODELS))
    empty = np.zeros(0, dtype=np.int64)
    job = TrainingJob(
        dataset=replace(dataset, test=dataset.test.take(np.arange(min(len(dataset.test), _TEST_RECORDS)))),
        canaries=Canaries(kind="none", description="none", payload=CoordinateGradients(coordinates=empty)),
        included=np.zeros((MODELS, 0), dtype=bool),
        seeds=seeds,
        mechanism=training_design.run_event,
        model=training_design.model,
        optimizer=training_design.optimizer,
        loss=training_design.loss,
        access=Access.FINAL_WEIGHTS,
        device=device,
    )
    if isinstance(training_design.trainer, ModelMaker):
        return training_design.trainer.untrained(job)
    source = ModelSource.of(job)
    weights = source.weights()
    return Ensemble(job, TrainedModels(weights=weights, initial=weights, executed=_executed()), source)


@dataclass(frozen=True, slots=True)
class RepeatingModels:
    """Models that look at `RECORDS` records at most, however many they are asked about, and repeat what these show.

    `products` `(N, m, steps)`, all zero, are what is recorded of canaries in each step or round, by what releases it; `looks`
    are checkpoints that a trainer would have kept.
    """

    ensemble: Any
    products: Mapping[str, Array]
    looks: int

    def __len__(self) -> int:
        return len(self.ensemble)

    def read(self, signals: Collection[Signal], canaries: Canaries) -> dict[str, Array]:
        """Signals of the canaries by their keys, without those that the models lack."""
        return ask_signals(signals, self, canaries)

    def outputs(self, inputs: Array) -> Array:
        return _repeated(self.ensemble.outputs(inputs[:RECORDS]), inputs)

    def own_losses(self, records: Records) -> Array | None:
        values = self.ensemble.own_losses(_first(records))
        return None if values is None else _repeated(values, records.inputs)

    def token_moments(self, inputs: Array) -> Array:
        return _repeated(self.ensemble.token_moments(inputs[:RECORDS]), inputs)

    def continuations(self, inputs: Array, starts: Array) -> Array:
        return _repeated(self.ensemble.continuations(inputs[:RECORDS], starts[:RECORDS]), inputs)

    def beams(self, inputs: Array, starts: Array, width: int) -> Array:
        return _repeated(self.ensemble.beams(inputs[:RECORDS], starts[:RECORDS], width), inputs)

    def initial(self) -> RepeatingModels:
        return replace(self, ensemble=self.ensemble.initial())

    def alone(self, model: int) -> RepeatingModels:
        return replace(self, ensemble=self.ensemble.alone(model))

    def checkpoints(self) -> list[RepeatingModels]:
        return [self] * self.looks

    def gradient_norms(self, records: Records) -> Array:
        return _repeated(self.ensemble.gradient_norms(_first(records)), records.inputs)

    def representations(self, records: Records) -> Representations | None:
        inside = self.ensemble.representations(_first(records))
        if inside is None:
            return None
        rows = _repeat(len(records))
        return Representations(
            hidden=inside.hidden[:, rows],
            class_distances=inside.class_distances[:, rows],
            last_gradient_norms=inside.last_gradient_norms[:, rows],
        )

    def step_products(self) -> Array | None:
        return self.products.get("steps")

    def round_products(self, source: str) -> Array:
        """`(N, m, rounds)`, all zero; `ObservationError` if the training has no rounds that parties see."""
        if source not in self.products:
            raise ObservationError(
                f"the {source} of each round are recorded by trainer 'federated' alone, of canary clients or, with unit: "
                "example in its mechanism, of records; digits, of canary clients; lengths, of one in each; counts, of one "
                "with adaptive_clip"
            )
        return self.products[source]

    def round_loss_drops(self, source: str) -> Array:
        return self.round_products(source)

    def weight_products(self, canaries: Canaries) -> Array | None:
        products: Array | None = self.ensemble.weight_products(canaries)
        return products


def _first(records: Records) -> Records:
    return records.take(np.arange(min(len(records), RECORDS)))


def _repeated(values: Array, records: Array) -> Array:
    return values[:, _repeat(len(records))]


def _repeat(count: int) -> Array:
    return np.arange(count) % RECORDS


def _executed() -> Executed:
    """Return the record of a training in which nothing was executed and nothing measured."""
    unknown = np.full(MODELS, np.nan)
    return Executed(
        steps=0,
        batch_sizes=np.zeros((MODELS, 0), dtype=np.int64),
        population=np.zeros(MODELS, dtype=np.int64),
        noise_multiplier=unknown,
        noise_draws=0,
        largest_norm=unknown,
        skipped=np.zeros(MODELS, dtype=np.int64),
        measured=False,
    )
