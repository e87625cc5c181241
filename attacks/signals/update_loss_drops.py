"""How far the loss of a canary example falls in each round by its client's update."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _canary_reading as canary_reading
from audit.core.data import Array, Canaries
from audit.core.models import OpenModels


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateLossDrops:
    """The loss under the model that clients were sent, minus that after its client's update; 0 in rounds without one."""

    key = "update_loss_drops"
    source = "updates"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return steps

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m, rounds)`; None for canary clients, which have no loss."""
        return None if canaries.are_gradients else canary_reading.of_groups(models.round_loss_drops(self.source), canaries)


PLUGIN = UpdateLossDrops
