"""Outputs of the final model."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.data import Array, Canaries
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
        """`(N, m, classes)`; None for canaries that are gradients, and for texts, whose outputs are one number a token."""
        records = canaries.records
        return None if records is None or records.are_texts else models.outputs(records.inputs)


PLUGIN = Logits
