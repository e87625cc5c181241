"""How far the weights moved along a canary's gradient."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.data import Array, Canaries
from audit.core.models import OpenModels


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightProducts:
    """The inner product of first minus last weights with the canary's unit gradient."""

    key = "weight_products"
    source = "weights"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m)`; None for canaries that are records, and where no one kept the first weights."""
        return models.weight_products(canaries) if canaries.are_gradients else None


PLUGIN = WeightProducts
