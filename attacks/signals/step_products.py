"""How much of a canary's gradient is in each noisy sum."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.data import Array, Canaries
from audit.core.models import OpenModels


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProducts:
    """The inner product of each step's noisy residual sum with the canary's unit gradient, divided by the clip norm."""

    key = "step_products"
    source = "steps"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return steps

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m, steps)`; None for canaries that are records."""
        return models.step_products() if canaries.are_gradients else None


PLUGIN = StepProducts
