"""The class that a model predicts for each record, beside numbers that attacks keep of its outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reductions
from audit.core.data import Array, Canaries
from audit.core.models import Models


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedClasses:
    """The first class with the largest output: what accuracies of groups and sides are counted from."""

    key = _reductions.PREDICTED_CLASSES
    source = "outputs"

    def size(self, classes: int, steps: int) -> int:
        """Numbers of 4 bytes that are kept of one canary under one model, at most."""
        return 1

    def of(self, outputs: Array, first: Array, labels: Array) -> Array:
        """`(N, rows)`, a byte each if there are 256 classes or fewer."""
        return np.asarray(np.argmax(outputs, axis=-1), np.min_scalar_type(outputs.shape[-1] - 1))

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)`; None for canaries that are no records of one class each."""
        return _reductions.read(self, models, canaries)


PLUGIN = PredictedClasses
