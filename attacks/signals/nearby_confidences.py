"""Confidence in a record and in the records near it: what a model knows of a whole neighbourhood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.data import Array, Canaries
from audit.core.models import Models
from audit.stats.scoring import signals
from audit.stats.scoring.nearby import near_weights

TEMPERATURE = 2.0  # by which logits are divided, as RMIA's default
NEAR, CANDIDATES = 20, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NearbyConfidences:
    """Logit-scaled confidence in a record's true label, and weighted sums of those in near records, by whether labels agree.

    Near are the 20 canaries of the largest cosine of inputs, among 10,000 canaries at most; near records of both labels have
    weights that add up to 1. Only outputs for the canaries themselves are asked for.
    """

    key = "nearby_confidences"
    source = "outputs"

    def size(self, classes: int, steps: int) -> int:
        """Numbers of 4 bytes that are kept of one canary under one model, at most."""
        return 6

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m, 3)` float64; None for canaries that are no records of real features and one class each."""
        records = canaries.records
        if records is None or not records.are_classified or len(records) < 2:
            return None
        inputs = np.asarray(records.inputs)
        if inputs.dtype.kind != "f":
            return None
        positions, weights, same = near_weights(inputs, records.labels, count=NEAR, candidates=CANDIDATES)
        own = signals.scaled_confidence(models.outputs(records.inputs), records.labels, TEMPERATURE)
        values = np.empty((*own.shape, 3))
        values[..., 0] = own
        for row, confidences in enumerate(own):  # one model at a time: `(m, 20)` numbers and not `(N, m, 20)`
            near = confidences[positions]
            values[row, :, 1] = (near * weights * same).sum(axis=1)
            values[row, :, 2] = (near * weights * ~same).sum(axis=1)
        return values


PLUGIN = NearbyConfidences
