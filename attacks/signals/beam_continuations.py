"""What a model finds likeliest if a secret stood, by beam search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals._texts import texts_of
from audit.core.data import Array, Canaries
from audit.core.errors import ConfigError
from audit.core.models import TextModels


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamContinuations:
    """Share of a secret's tokens, from its first on without a gap, that the best of `beams` continuations has.

    Beam search reads the likeliest next tokens of every prefix, so it needs the model's distributions over tokens.

    Attributes:
        beams: continuations that are kept at each token.
    """

    beams: int = 8

    source = "token_distributions"

    def __post_init__(self) -> None:
        if isinstance(self.beams, bool) or not isinstance(self.beams, int) or self.beams < 2:
            raise ConfigError(f"beam_continuations.beams is {self.beams!r}; expected a whole number of at least 2")

    @property
    def key(self) -> str:
        """Name in a view."""
        return f"beam_continuations_{self.beams}"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)` in [0, 1]: 1 for a secret that is among the beams; None for canaries that are no texts."""
        records = texts_of(canaries)
        if records is None:
            return None
        secret = records.labels >= 0
        texts = models.beams(records.inputs, secret.argmax(axis=1), self.beams)
        is_right = np.where(secret[:, None], texts == records.labels[:, None], True)
        run = np.cumprod(is_right, axis=-1).astype(bool) & secret[:, None]
        shares = run.sum(axis=-1) / np.maximum(secret.sum(axis=-1), 1)[:, None]
        return np.asarray(shares.max(axis=-1), dtype=np.float32)


PLUGIN = BeamContinuations
