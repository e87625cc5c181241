"""Exposure: how far up a secret is among those that could have stood in its place."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attacks.signals import _canary_reading as canary_reading
from attacks.signals._text_signals import ExtrapolatedExposures, SecretRanks
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.secret_units import SecretUnit
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import texts

EXTRAPOLATED_BITS = (10.0, 20.0)  # that a report counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Scores each text with its secret's exposure in bits: log2 of the candidates minus log2 of the secret's rank.

    Without training the mean is at most that of a uniform rank, 1.443 bits for many candidates.

    Attributes:
        candidates: secrets that are compared, the canary's own among them.
        extrapolated: the exposure among all secrets by a skew-normal law fitted to the candidates' losses, an estimate, in
            place of the rank among the candidates.

    References:
        Carlini et al. 2019, arXiv 1802.08232.
    """

    candidates: int = 64
    extrapolated: bool = False

    def __post_init__(self) -> None:
        self._signal()

    @property
    def needs(self) -> Needs:
        """Ranks of secrets, or extrapolated ones; no references."""
        return Needs(signals={self._signal()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Exposure in bits, `(m,)` float64."""
        values = canary_reading.text_signal(target, self._signal().key, "exposure")
        return np.asarray(values, dtype=np.float64) if self.extrapolated else texts.exposure(values, self.candidates)

    @property
    def unit(self) -> SecretUnit:
        """Bits; the largest level of a rank is that of a secret before all candidates. A fitted law bounds no mean."""
        if self.extrapolated:
            return SecretUnit(quantity="bits of exposure, extrapolated", levels=EXTRAPOLATED_BITS)
        best = math.log2(self.candidates)
        quantity = f"bits of exposure among {self.candidates} candidates"
        return SecretUnit(quantity=quantity, levels=(best / 2, best), by_chance=texts.mean_null_exposure(self.candidates))

    def _signal(self) -> SecretRanks | ExtrapolatedExposures:
        kind = ExtrapolatedExposures if self.extrapolated else SecretRanks
        return kind(candidates=self.candidates)


PLUGIN = Exposure
