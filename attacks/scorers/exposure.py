"""Exposure: how far up a secret stands among those that could have stood in its place."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _reading as reading
from attacks.signals.secret_ranks import SecretRanks
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Scores each text with its secret's exposure in bits: log2 of the candidates minus log2 of the secret's rank.

    Without training the mean is at most that of a uniform rank, 1.443 bits for many candidates.

    Attributes:
        candidates: secrets that are compared, the canary's own among them.

    References:
        Carlini et al. 2019, arXiv 1802.08232.
    """

    candidates: int = 64

    def __post_init__(self) -> None:
        SecretRanks(candidates=self.candidates)

    @property
    def needs(self) -> Needs:
        """Ranks of secrets; no references."""
        return Needs(signals={SecretRanks(candidates=self.candidates)})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Exposure in bits, `(m,)` float64."""
        ranks = reading.text_signal(target, SecretRanks(candidates=self.candidates).key, "exposure")
        return texts.exposure(ranks, self.candidates)


PLUGIN = Exposure
