"""Losses of the public model that training began from."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals._texts import texts_of
from audit.core.data import Array, Canaries
from audit.core.models import TextModels
from audit.stats.scoring import texts


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialLosses:
    """The mean loss of each text under the model before its first step, in nats."""

    key = "initial_losses"
    source = "token_log_probabilities"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)`; None for canaries that are no texts."""
        records = texts_of(canaries)
        return None if records is None else texts.mean_losses(models.initial().outputs(records.inputs), records.labels)


PLUGIN = InitialLosses
