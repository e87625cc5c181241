"""Losses, for models of which nothing else is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.canaries import Canaries
from audit.core.data import Array, Records
from audit.core.models import Models
from audit.stats.scoring import signals, texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The cross-entropy loss of each record in nats, over several labels added up; of a regression `log(1 + error^2)`.

    Of models that were trained by a user's own loss, which may be any real number, `log(1 + exp(loss))`: attacks read minus the
    loss off it.

    Attacks that read losses take them from logits if they can: small losses keep their order there.
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
        losses = models.own_losses(canaries.records)
        return _output_losses(models, canaries.records) if losses is None else np.logaddexp(0.0, losses)


def _output_losses(models: Models, records: Records) -> Array:
    """The usual loss of the records' labels; of a regression attacks read minus the log of the square off it."""
    outputs, labels = models.outputs(records.inputs), records.labels
    if labels.dtype.kind == "b":
        return signals.binary_cross_entropy(outputs, labels)
    if labels.dtype.kind == "f":
        squares = np.square(outputs.reshape(len(outputs), *labels.shape) - labels, dtype=np.float64)
        return np.asarray(np.log1p(squares.reshape(*squares.shape[:2], -1).sum(axis=-1)))
    return signals.cross_entropy(outputs, labels)


PLUGIN = Losses
