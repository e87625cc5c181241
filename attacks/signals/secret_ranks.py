"""The rank of a secret among others that could have stood in its place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _secrets
from audit.core.data import Array, Canaries
from audit.core.errors import ConfigError
from audit.core.models import TextModels


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRanks:
    """Rank of each secret by its log-probability among `candidates` drawn by the same law, the secret counted; 1 is the best.

    Ties count against the secret, so for a secret that was never trained on, the rank is uniform or worse.

    Attributes:
        candidates: compared, the secret among them.
        seed: of the draw, which is the same for all models.
    """

    candidates: int = 64
    seed: int = 0

    source = "token_log_probabilities"

    def __post_init__(self) -> None:
        if self.candidates < 2:
            raise ConfigError(f"secret_ranks.candidates is {self.candidates}; expected at least 2")

    @property
    def key(self) -> str:
        """Name in a view."""
        return f"secret_ranks_{self.candidates}_{self.seed}"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)` float32; None for canaries that are no texts, or whose secrets were not drawn token by token."""
        pair = _secrets.comparison(models, canaries, self.candidates - 1, self.seed)
        if pair is None:
            return None
        own, rivals = pair
        ranks = np.ones_like(own)
        for sums, is_own in rivals:
            ranks += (sums >= own) & ~is_own
        return ranks.astype(np.float32)


PLUGIN = SecretRanks
