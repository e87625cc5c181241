"""Min-K %++: how likely the least likely tokens of a text are among the tokens that could have stood there."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _canary_reading as canary_reading
from attacks.signals.token_log_probabilities import TokenLogProbabilities
from attacks.signals.token_moments import TokenMoments
from audit.core import checks
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import texts


@dataclass(frozen=True, slots=True, kw_only=True)
class MinKPlusPlus:
    """Scores each text as `min_k` does, each log-probability standardised over the distribution of its token.

    A token whose distribution has no spread scores 0: public code divides by it.

    Attributes:
        share: of tokens that count, at least one of each text.

    References:
        Zhang et al. 2024, arXiv 2404.02936.
    """

    share: float = 0.2

    def __post_init__(self) -> None:
        checks.open_probability(self.share, "min_k_plus_plus.share")

    @property
    def needs(self) -> Needs:
        """Log-probabilities and distributions of tokens; no references."""
        return Needs(signals={TokenLogProbabilities(), TokenMoments()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """The mean of the lowest, `(m,)` float64."""
        moments = canary_reading.text_signal(target, "token_moments", "min_k_plus_plus")
        values = canary_reading.text_signal(target, "token_log_probabilities", "min_k_plus_plus")
        standard = texts.standardised(values, moments[..., 0], moments[..., 1])
        return texts.lowest_share_mean(standard, canary_reading.text_labels(target, "min_k_plus_plus"), self.share)


PLUGIN = MinKPlusPlus
