"""What is kept of outputs beside the numbers that attacks read."""

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reductions
from attacks.signals._sizes import OnePerCanary
from audit.core.canaries import Canaries
from audit.core.data import Array
from audit.core.models import Models


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedClasses(OnePerCanary):
    """The first class with the largest output: what accuracies of groups and sides are counted from."""

    key = _reductions.PREDICTED_CLASSES
    source = "outputs"

    def reduce(self, outputs: Array, first: Array, labels: Array) -> Array:
        """`(N, rows)`, a byte each if there are 256 classes or fewer."""
        return np.asarray(np.argmax(outputs, axis=-1), np.min_scalar_type(outputs.shape[-1] - 1))

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)`; None if canaries are no records of one class each."""
        return _reductions.read(self, models, canaries)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedOutputs(OnePerCanary):
    """True of each record whose outputs are those of the first: of all if a model shows nothing (`View.is_silent`)."""

    key = _reductions.REPEATED_OUTPUTS
    source = "outputs"

    def reduce(self, outputs: Array, first: Array, labels: Array) -> Array:
        """`(N, rows)` bool."""
        return np.asarray((outputs == first[:, None]).all(axis=-1))

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)` bool; None if canaries are no records of one class each."""
        return _reductions.read(self, models, canaries)
