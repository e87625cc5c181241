"""Attacks on secrets in texts: whether the model writes them, and how far up they are among those that could stand there."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.signals import _canary_reading as canary_reading
from attacks.signals._text_signals import (
    BeamContinuations,
    Continuations,
    ExtrapolatedExposures,
    SecretRanks,
    TokenLogProbabilities,
)
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.game_results import SecretUnit
from audit.core.phrases import phrase
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Scores each text with the share of its secret that the model writes after the text before it.

    Attributes:
        beams: 1 takes the greedy continuation; more take the best of so many that beam search keeps.

    References: Carlini et al. 2021, arXiv 2012.07805; Carlini et al. 2023, arXiv 2202.07646.
    """

    beams: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.beams, bool) or not isinstance(self.beams, int) or self.beams < 1:
            raise ConfigError(f"extraction.beams is {self.beams!r}; expected a whole number of at least 1")

    @property
    def needs(self) -> Needs:
        return Needs(signals={Continuations() if self.beams == 1 else BeamContinuations(beams=self.beams)})

    @property
    def unit(self) -> SecretUnit:
        """Share of a secret; the whole of it is extracted."""
        best = phrase("share of a secret in the best of {beams} continuations", beams=self.beams)
        return SecretUnit(quantity="share of a secret written greedily" if self.beams == 1 else best, levels=(0.5, 1.0))

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        (signal,) = self.needs.signals
        return canary_reading.text_signal(target, signal.key, "extraction")


CHANCES = (0.1, 0.5, 0.9)  # p of (n, p)-discoverable extraction that a report counts


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverableExtraction:
    """Scores each text with the chance p that at least one of n sampled continuations is its whole secret.

    Exact, from the log-probabilities of the secret's tokens: nothing is sampled. Sampling is at temperature 1 from all tokens.

    Attributes:
        queries: n, continuations that are sampled.

    References: Hayes et al. 2024, arXiv 2410.19482.
    """

    queries: int = 1000

    def __post_init__(self) -> None:
        if isinstance(self.queries, bool) or not isinstance(self.queries, int) or self.queries < 1:
            raise ConfigError(f"discoverable_extraction.queries is {self.queries!r}; expected a whole number of at least 1")

    needs: ClassVar[Needs] = Needs(signals={TokenLogProbabilities()})

    @property
    def unit(self) -> SecretUnit:
        """The chance p at n samples; texts of at least so large a p are (n, p)-discoverable."""
        return SecretUnit(
            quantity=phrase("chance that {queries} samples hold a whole secret", queries=self.queries), levels=CHANCES
        )

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        values = canary_reading.text_signal(target, TokenLogProbabilities.key, "discoverable_extraction")
        return texts.extraction_chance(values, canary_reading.text_labels(target, "discoverable_extraction"), self.queries)


EXTRAPOLATED_BITS = (10.0, 20.0)  # that a report counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Scores each text with its secret's exposure in bits: log2 of the candidates minus log2 of the secret's rank.

    Without training the mean is at most that of a uniform rank, 1.443 bits for many candidates.

    Attributes:
        extrapolated: the exposure among all secrets by a skew-normal law fitted to the candidates' losses, an estimate, in
            place of the rank among the candidates.

    References: Carlini et al. 2019, arXiv 1802.08232.
    """

    candidates: int = 64
    extrapolated: bool = False

    def __post_init__(self) -> None:
        self._signal()

    @property
    def needs(self) -> Needs:
        return Needs(signals={self._signal()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        values = canary_reading.text_signal(target, self._signal().key, "exposure")
        return np.asarray(values, dtype=np.float64) if self.extrapolated else texts.exposure(values, self.candidates)

    @property
    def unit(self) -> SecretUnit:
        """Bits; the largest level of a rank is that of a secret before all candidates. A fitted law bounds no mean."""
        if self.extrapolated:
            return SecretUnit(quantity="bits of exposure, extrapolated", levels=EXTRAPOLATED_BITS)
        best = math.log2(self.candidates)
        quantity = phrase("bits of exposure among {candidates} candidates", candidates=self.candidates)
        return SecretUnit(quantity=quantity, levels=(best / 2, best), by_chance=texts.mean_null_exposure(self.candidates))

    def _signal(self) -> SecretRanks | ExtrapolatedExposures:
        kind = ExtrapolatedExposures if self.extrapolated else SecretRanks
        return kind(candidates=self.candidates)
