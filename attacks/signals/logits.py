"""Outputs of the final model."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.canaries import Canaries
from audit.core.data import Array
from audit.core.models import Models


@dataclass(frozen=True, slots=True, kw_only=True)
class Logits:
    """Outputs for each record."""

    key = "logits"
    source = "outputs"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return max(classes, 1)

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m, classes)`, of a regression `(N, m, 1)`.

        None for canaries that are gradients, for texts (their outputs are one number per token), and for records that have
        several labels or no class: their losses are read.
        """
        records = canaries.records
        if records is None or records.labels.ndim > 1:
            return None
        outputs = models.outputs(records.inputs)
        return None if records.labels.dtype.kind == "f" and outputs.shape[-1] != 1 else outputs


PLUGIN = Logits
