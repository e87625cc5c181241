"""Log-probabilities of a text's own tokens."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.data import Array, Canaries
from audit.core.protocols import TextModels

LONGEST = 1 << 12  # tokens of a text, for the estimate of memory


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
        if canaries.records is None or not canaries.records.are_texts:
            return None
        return models.outputs(canaries.records.inputs)


PLUGIN = TokenLogProbabilities
