"""How hard a record pulls on the last linear layer."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.data import Array, Canaries
from audit.core.models import OpenModels


@dataclass(frozen=True, slots=True, kw_only=True)
class LastGradientNorms:
    """The l2 norm of each record's loss gradient in the last linear layer, if one gives the outputs."""

    key = "last_gradient_norms"
    source = "weights"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m)`; None for canaries that are gradients, and where no linear layer gives the outputs."""
        inside = None if canaries.records is None else models.representations(canaries.records)
        return None if inside is None else inside.last_gradient_norms


PLUGIN = LastGradientNorms
