"""How much of a canary client or example is in the step from one released model to the next."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _canary_reading as canary_reading
from audit.core.data import Array, Canaries
from audit.core.models import OpenModels


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProducts:
    """Inner product of the noisy sum behind each released model, less the honest clients' known sum, with the canary's
    direction, over the clip norm. Of a canary example: the cosine with its gradient.
    """

    key = "model_products"
    source = "models"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return steps

    def read(self, models: OpenModels, canaries: Canaries) -> Array:
        """`(N, m, rounds)`."""
        return canary_reading.of_groups(models.round_products(self.source), canaries)


PLUGIN = ModelProducts
