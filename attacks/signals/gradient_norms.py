"""How hard a record pulls on the weights."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.data import Array, Canaries
from audit.core.models import OpenModels


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNorms:
    """The l2 norm of each record's loss gradient in all parameters."""

    key = "gradient_norms"
    source = "weights"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m)`; None for canaries that are gradients."""
        return None if canaries.records is None else models.gradient_norms(canaries.records)


PLUGIN = GradientNorms
