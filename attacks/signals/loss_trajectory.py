"""How a record's loss came down during training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.data import Array, Canaries
from audit.core.models import OpenModels
from audit.stats.scoring import signals


@dataclass(frozen=True, slots=True, kw_only=True)
class LossTrajectory:
    """The loss of each record under the model at some steps, the last included."""

    key = "loss_trajectory"
    source = "steps"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 8

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m, checkpoints)` float32; None for canaries that are gradients, and where no checkpoints were kept."""
        checkpoints = models.checkpoints()
        if canaries.records is None or not checkpoints:
            return None
        inputs, labels = canaries.records.inputs, canaries.records.labels
        losses = [signals.cross_entropy(checkpoint.outputs(inputs), labels) for checkpoint in checkpoints]
        return np.stack(losses, axis=-1).astype(np.float32)


PLUGIN = LossTrajectory
