"""Mean and spread of the log-probability over the distribution of each next token."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals._texts import LONGEST, texts_of
from audit.core.data import Array, Canaries
from audit.core.models import TextModels


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMoments:
    """What a token's log-probability would be on average, and its standard deviation, were it drawn from the model."""

    key = "token_moments"
    source = "token_distributions"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 2 * LONGEST

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m, T, 2)`; None for canaries that are no texts."""
        records = texts_of(canaries)
        return None if records is None else models.token_moments(records.inputs)


PLUGIN = TokenMoments
