"""What a model writes if a secret stood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals._texts import texts_of
from audit.core.data import Array, Canaries, Records
from audit.core.models import TextModels


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuations:
    """Share of a secret's tokens, from its first on without a gap, that the model writes greedily after the text before it."""

    key = "continuations"
    source = "generations"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)` in [0, 1]: 1 for a secret that was extracted whole; None for canaries that are no texts."""
        records = texts_of(canaries)
        return None if records is None else _shares(models, records)


def _shares(models: TextModels, records: Records) -> Array:
    secret = records.labels >= 0
    texts = models.continuations(records.inputs, secret.argmax(axis=1))
    right = np.where(secret, texts == records.labels, True)
    run = np.cumprod(right, axis=-1).astype(bool) & secret
    return np.asarray(run.sum(axis=-1) / np.maximum(secret.sum(axis=-1), 1), dtype=np.float32)


PLUGIN = Continuations
