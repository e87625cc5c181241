"""How far a record must be moved before its predicted label changes, found by label queries alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals._hop_skip_jump import boundary_distances
from audit.core.data import Array, Canaries, Records
from audit.core.models import Models, OpenModels
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryDistances:
    """l2 distance of each record to a point of another predicted label, 0 if its own is wrong.

    Attributes:
        queries: predicted labels asked for each record and model, at most.
    """

    queries: int

    source = "label_queries"

    @property
    def key(self) -> str:
        return f"boundary_distances_{self.queries}"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m)` float32; None for canaries that are gradients."""
        if canaries.records is None:
            return None
        return np.stack([self._of(models.alone(number), canaries.records) for number in range(len(models))])

    def _of(self, model: Models, records: Records) -> Array:
        """Distances `(m,)` of one model; outputs that are not finite predict class 0 for everything and have none."""

        def predict(inputs: Array) -> Array:
            return np.asarray(np.nan_to_num(model.outputs(inputs)[0]).argmax(axis=-1))

        if len(np.unique(predict(records.inputs))) < 2:
            return np.zeros(len(records), dtype=np.float32)
        seed = Seed(0).child("boundary")  # the same probes for every model, so that distances can be compared
        distances = boundary_distances(predict, records.inputs, records.labels, budget=self.queries, seed=seed)
        return distances.values.astype(np.float32)


PLUGIN = BoundaryDistances
