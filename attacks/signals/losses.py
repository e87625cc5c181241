"""Losses, for models of which nothing else is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.data import Array, Canaries
from audit.core.models import Models
from audit.stats.scoring import signals, texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The cross-entropy loss of each record in nats; of a regression `log(1 + error^2)`.

    Attacks that read losses take them from logits where they can: small losses keep their order there.
    """

    key = "losses"
    source = "losses"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)`; of a text the mean over the tokens to predict. None for canaries that are gradients."""
        if canaries.records is None:
            return None
        if canaries.records.are_texts:
            return texts.mean_losses(models.outputs(canaries.records.inputs), canaries.records.labels)
        outputs, labels = models.outputs(canaries.records.inputs), canaries.records.labels
        if labels.dtype.kind == "f":
            return np.log1p(
                (outputs[..., 0].astype(np.float64) - labels) ** 2
            )  # attacks read minus the log of the square off it
        return signals.cross_entropy(outputs, labels)


PLUGIN = Losses
