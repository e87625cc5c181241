"""Confidence in a record and in the records near it: what a model knows of a whole neighbourhood."""

import hashlib
from dataclasses import dataclass

import numpy as np

from attacks.signals import _reductions
from audit.core.canaries import Canaries
from audit.core.data import Array, Records
from audit.core.models import Models
from audit.stats.scoring import signals
from audit.stats.scoring.nearby import near_weights
from audit.stats.spread import parts

TEMPERATURE = 2.0  # by which logits are divided, as RMIA's default
NEAR, CANDIDATES = 20, 10_000
_LATEST: dict[bytes, tuple[Array, Array, Array]] = {}  # of one set of canaries at most


@dataclass(frozen=True, slots=True, kw_only=True)
class NearbyConfidences:
    """Logit-scaled confidence in a record's true label, and weighted sums of those in near records, by whether labels agree.

    Near are the 20 canaries of the largest cosine of inputs, among 10,000 canaries at most; near records of both labels have
    weights that add up to 1. Only outputs for the canaries themselves are asked for.
    """

    key = _reductions.NEARBY_CONFIDENCES
    source = "outputs"

    def size(self, classes: int, steps: int) -> int:
        return 6  # three numbers of eight bytes, counted in fours

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m, 3)` float64; None if canaries are no records of real features and one class each."""
        records = canaries.records
        if records is None or not records.are_classified or len(records) < 2:
            return None
        if records.inputs.dtype.kind != "f" or not records.inputs.size:  # of recorded outputs alone inputs have no features
            return None
        positions, weights, matches = _near(records)
        own = signals.scaled_confidence(models.outputs(records.inputs), records.labels, TEMPERATURE)
        values = np.empty((*own.shape, 3))
        values[..., 0] = own
        for part in parts(len(records), positions.shape[1]):
            alike, unlike = weights[part] * matches[part], weights[part] * ~matches[part]
            for row, confidences in enumerate(own):
                near = confidences[positions[part]]
                values[row, part, 1], values[row, part, 2] = (near * alike).sum(axis=1), (near * unlike).sum(axis=1)
        return values


def _near(records: Records) -> tuple[Array, Array, Array]:
    """Near records and their weights; remembered, since every job of a game asks for those of the same canaries."""
    key = _digest(records)
    if key not in _LATEST:
        _LATEST.clear()  # a game asks for one set until it ends
        _LATEST[key] = near_weights(records.inputs, records.labels, count=NEAR, candidates=CANDIDATES)
    return _LATEST[key]


def _digest(records: Records) -> bytes:
    digest = hashlib.sha256(f"{records.inputs.shape} {records.labels.dtype}".encode())
    for part in parts(len(records), int(np.prod(records.inputs.shape[1:]))):
        values = np.ascontiguousarray(records.inputs[part])
        digest.update(f"{values.dtype}".encode())
        digest.update(values.data)
    digest.update(np.ascontiguousarray(records.labels).data)
    return digest.digest()


PLUGIN = NearbyConfidences
