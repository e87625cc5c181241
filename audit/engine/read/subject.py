"""Models of one training job as a subject: what signals and later steps read of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attacks.signals._asking import ask_signals
from audit.core.canaries import Canaries
from audit.core.data import Array, Records
from audit.core.errors import ObservationError
from audit.core.models import Reduction, Representations, Signal
from audit.core.training import Executed, TrainedModels, TrainingJob
from audit.engine.losses import find_loss
from audit.engine.read import observe
from audit.engine.trial.model_source import ModelSource


class Ensemble:
    """N models that a job trained, with their weights, and what was recorded on the way, at hand.

    `source` is that of the models before their training; None for all models of the job, in its order.
    """

    def __init__(self, job: TrainingJob, models: TrainedModels, source: ModelSource | None = None) -> None:
        self._job, self.models = job, models
        self._source = source or ModelSource.of(job).as_trained(models.executed)
        probe, outputs = job.dataset.test.inputs[:2], job.dataset.outputs
        self._reader = observe.EnsembleReader(
            job.model, models.weights, probe, outputs, device=job.device, loss=find_loss(job.loss), source=self._source
        )
        self._inside: tuple[Records, Representations | None] | None = None
        self._canaries: tuple[Array, Array | None] | None = None  # canaries and outputs for them, while signals are read

    @property
    def released(self) -> frozenset[str]:
        return self._job.access.released

    @property
    def weights(self) -> Mapping[str, Array]:
        return self.models.weights

    @property
    def executed(self) -> Executed:
        return self.models.executed

    def __len__(self) -> int:
        return len(next(iter(self.models.weights.values())))

    @property
    def classes(self) -> int:
        """Of the data, 0 if labels are no classes."""
        return self._job.dataset.classes

    def own_losses(self, records: Records) -> Array | None:
        return self._reader.losses(records) if self._job.loss else None

    def read(self, signals: Collection[Signal], canaries: Canaries) -> Mapping[str, Array]:
        records = canaries.records
        reductions = [signal for signal in signals if isinstance(signal, Reduction)]
        if self._job.loss or records is None or not records.are_classified:
            reductions = []
        self._canaries = None if records is None else (records.inputs, None)
        values = ask_signals([signal for signal in signals if signal not in reductions], self, canaries)
        self._canaries = None
        if reductions and records is not None:  # all of them in one pass
            values |= self._reader.reduce_outputs(reductions, records)
        return values

    def outputs(self, inputs: Array) -> Array:
        """`(N, n, classes)` outputs in evaluation mode; those for canaries once for all signals that are read together."""
        if self._canaries is None or self._canaries[0] is not inputs:
            return self._reader.outputs(inputs)
        outputs = self._reader.outputs(inputs) if self._canaries[1] is None else self._canaries[1]
        self._canaries = (inputs, outputs)
        return outputs

    def changed(self, **changes: Any) -> Ensemble:
        """The same with other fields of `models`, for trainers that wrap another."""
        return Ensemble(self._job, replace(self.models, **changes), self._source)

    def alone(self, model: int) -> Ensemble:
        weights = {name: value[model : model + 1] for name, value in self.models.weights.items()}
        source = self._source.section(slice(model, model + 1))
        return Ensemble(self._job, TrainedModels(weights=weights, executed=self.models.executed), source)

    def checkpoints(self) -> Sequence[Ensemble]:
        parts = (TrainedModels(weights=weights, executed=self.models.executed) for weights in self.models.checkpoints)
        return [Ensemble(self._job, part, self._source) for part in parts]

    def gradient_norms(self, records: Records) -> Array:
        return self._reader.gradient_norms(records)

    def representations(self, records: Records) -> Representations | None:
        """Return what enters and leaves the last linear layer, computed once for all signals that read it; None without one."""
        if self._inside is None or self._inside[0] is not records:
            self._inside = (records, self._reader.representations(records))
        return self._inside[1]

    def step_products(self) -> Array:
        """`(N, m, steps)` inner products of the noisy sums with gradient canaries; `ObservationError` if none was recorded."""
        if self.models.products is None:
            raise ObservationError("the trainer recorded no gradient products; this game needs all steps")
        return self.models.products

    def round_products(self, source: str) -> Array:
        """`(N, m, rounds)`: how much of each canary is in what a party of a federated training saw in each round.

        The source is "updates", "sums" or "models"; `ObservationError` if the trainer recorded none.
        """
        return self._round_values(source, "products")

    def round_loss_drops(self, source: str) -> Array:
        """`(N, m, rounds)`: how far the loss of each canary example fell in a round, by "updates" or "models"."""
        return self._round_values(source, "loss_drops")

    def _round_values(self, source: str, kind: str) -> Array:
        values = self.models.extra.get(f"{source}/{kind}")
        if values is None:
            raise ObservationError(
                f"the trainer recorded nothing of canaries in the {source} of each round; only trainer 'federated' does so, "
                "and the falls of losses only of canaries that are records"
            )
        return values

    def weight_products(self, canaries: Canaries) -> Array | None:
        """`(N, m)` inner products of first minus last weights with gradient canaries; None without the first ones."""
        if self.models.initial is None:
            return None
        return np.asarray(observe.weight_products(self.models.initial, self.models.weights, canaries))
