"""How sure a model is of the true class: one number of each record's outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reductions
from audit.core.canaries import Canaries
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.models import Models
from audit.stats.scoring import signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidences:
    """Logit-scaled confidence in the true class, `log(p / (1 - p))`, with all logits divided by a temperature first.

    Not a number if an output is not finite, so that the model counts as diverged, as it does by its outputs.

    Attributes:
        temperature: by which logits are divided; 1 leaves them as they are.
    """

    temperature: float = 1.0

    source = "outputs"

    def __post_init__(self) -> None:
        if not 0 < self.temperature < np.inf:
            raise ConfigError(f"confidences.temperature is {self.temperature}; expected a finite number above 0")

    @property
    def key(self) -> str:
        return _reductions.confidences_key(self.temperature)

    def size(self, classes: int, steps: int) -> int:
        """Numbers of 4 bytes that are kept of one canary under one model."""
        return 2

    def reduce(self, outputs: Array, first: Array, labels: Array) -> Array:
        """`(N, rows)` float64."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = signals.scaled_confidence(outputs, labels, self.temperature)
        return np.where(np.isfinite(outputs).all(axis=-1), values, np.nan)

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)` float64; None for canaries that are no records of one class each."""
        return _reductions.read(self, models, canaries)


PLUGIN = Confidences
