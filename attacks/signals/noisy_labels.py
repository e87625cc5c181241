"""How often a record's class survives noise on its features: what many queries of predicted labels say of a record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.data import Array, Canaries
from audit.core.errors import ConfigError
from audit.core.models import Models
from audit.core.seeds import Seed

LEVELS = (0.25, 0.5, 1.0, 2.0)
"""Standard deviations of the noise, in those of each feature over the records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyLabels:
    """Share of noisy copies of each record whose predicted class is its label, at each of `LEVELS`.

    Every feature gets normal noise in its own units standard deviation over the canaries (of a single canary: of its own
    values). The copies are the same for all models, so that shares can be compared.

    Attributes:
        queries: copies at each level, and so a quarter of the predicted labels that are asked for each record and model.
    """

    queries: int = 16

    source = "label_queries"

    def __post_init__(self) -> None:
        if isinstance(self.queries, bool) or not isinstance(self.queries, int) or self.queries < 1:
            raise ConfigError(f"noisy_labels.queries is {self.queries!r}; expected a whole number of at least 1")

    @property
    def key(self) -> str:
        return f"noisy_labels_{self.queries}"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return len(LEVELS)

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m, levels)` float32; None for canaries that are no records of real features and one class each."""
        records = canaries.records
        if records is None or not records.are_classified:
            return None
        inputs = np.asarray(records.inputs)
        if inputs.dtype.kind != "f":
            return None
        shares = np.zeros((len(models), len(inputs), len(LEVELS)), dtype=np.float32)
        random = Seed(0).child("noisy labels").numpy()
        spread = inputs.std(axis=0) if len(inputs) > 1 else inputs.std()
        for number, level in enumerate(LEVELS):
            for _ in range(self.queries):
                noise = random.standard_normal(inputs.shape, dtype=np.float32)
                copies = (inputs + level * spread * noise).astype(inputs.dtype)
                shares[:, :, number] += np.nan_to_num(models.outputs(copies)).argmax(axis=-1) == records.labels
        return shares / self.queries


PLUGIN = NoisyLabels
