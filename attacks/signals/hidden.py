"""What the last linear layer is given for a record."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.data import Array, Canaries
from audit.core.models import OpenModels


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenRepresentations:
    """Inputs of the last linear layer, or their image under one random map to 256 numbers if they are wider."""

    key = "hidden"
    source = "weights"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 256

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m, d)`; None for canaries that are gradients, and where no linear layer gives the outputs."""
        inside = None if canaries.records is None else models.representations(canaries.records)
        return None if inside is None else inside.hidden


PLUGIN = HiddenRepresentations
