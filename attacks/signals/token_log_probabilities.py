"""Log-probabilities of a text's own tokens."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals._texts import LONGEST, texts_of
from audit.core.data import Array, Canaries
from audit.core.models import TextModels


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogProbabilities:
    """The log-probability of each token given those before it; 0 for the first token and behind the end."""

    key = "token_log_probabilities"
    source = "token_log_probabilities"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return LONGEST

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m, T)`; None for canaries that are no texts."""
        records = texts_of(canaries)
        return None if records is None else models.outputs(records.inputs)


PLUGIN = TokenLogProbabilities
