"""How much of a canary client or example is in the update that its slot sends."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _canary_reading as canary_reading
from audit.core.data import Array, Canaries
from audit.core.models import OpenModels


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateProducts:
    """Inner product of what arrives from a canary's slot in each round with its direction, over the clip norm; 0 in rounds
    that it does not take part in. Of a canary example: the cosine with its gradient.
    """

    key = "update_products"
    source = "updates"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return steps

    def read(self, models: OpenModels, canaries: Canaries) -> Array:
        """`(N, m, rounds)`."""
        return canary_reading.of_groups(models.round_products(self.source), canaries)


PLUGIN = UpdateProducts
