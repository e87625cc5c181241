"""(n, p)-discoverable extraction: a secret that one of n sampled texts holds with chance p was in the training data."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _canary_reading as canary_reading
from attacks.signals._text_signals import TokenLogProbabilities
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.protocols import Needs
from audit.core.secret_units import SecretUnit
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import texts

CHANCES = (0.1, 0.5, 0.9)  # p of (n, p)-discoverable extraction that a report counts


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverableExtraction:
    """Scores each text with the chance p that at least one of n sampled continuations is its whole secret.

    Exact, from the log-probabilities of the secret's tokens: nothing is sampled. Sampling is at temperature 1 from all tokens.

    Attributes:
        queries: n, continuations that are sampled.

    References:
        Hayes et al. 2024, arXiv 2410.19482.
    """

    queries: int = 1000

    def __post_init__(self) -> None:
        if isinstance(self.queries, bool) or not isinstance(self.queries, int) or self.queries < 1:
            raise ConfigError(f"discoverable_extraction.queries is {self.queries!r}; expected a whole number of at least 1")

    @property
    def needs(self) -> Needs:
        """Log-probabilities of tokens; no references."""
        return Needs(signals={TokenLogProbabilities()})

    @property
    def unit(self) -> SecretUnit:
        """The chance p at n samples; texts of at least so large a p are (n, p)-discoverable."""
        return SecretUnit(quantity=f"chance that {self.queries} samples hold a whole secret", levels=CHANCES)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """The chance, `(m,)` float64."""
        values = canary_reading.text_signal(target, TokenLogProbabilities.key, "discoverable_extraction")
        return texts.extraction_chance(values, canary_reading.text_labels(target, "discoverable_extraction"), self.queries)


PLUGIN = DiscoverableExtraction
