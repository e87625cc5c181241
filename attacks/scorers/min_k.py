"""Min-K %: how likely the least likely tokens of a text are."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _canary_reading as canary_reading
from attacks.signals.token_log_probabilities import TokenLogProbabilities
from audit.core import checks
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import texts


@dataclass(frozen=True, slots=True, kw_only=True)
class MinK:
    """Scores each text with the mean log-probability of its least likely tokens, of those that are predicted.

    Attributes:
        share: of tokens that count, at least one of each text.

    References:
        Shi et al. 2024, arXiv 2310.16789.
    """

    share: float = 0.2

    def __post_init__(self) -> None:
        checks.open_probability(self.share, "min_k.share")

    @property
    def needs(self) -> Needs:
        """Log-probabilities of tokens; no references."""
        return Needs(signals={TokenLogProbabilities()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """The mean of the lowest, `(m,)` float64."""
        values = canary_reading.text_signal(target, "token_log_probabilities", "min_k")
        return texts.lowest_share_mean(values, canary_reading.text_labels(target, "min_k"), self.share)


PLUGIN = MinK
