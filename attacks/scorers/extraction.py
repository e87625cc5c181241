"""Extraction: a secret that the model writes itself was in its training data."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _canary_reading as canary_reading
from attacks.signals._text_signals import BeamContinuations, Continuations
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.protocols import Needs
from audit.core.secret_units import SecretUnit
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Scores each text with the share of its secret that the model writes after the text before it.

    Attributes:
        beams: 1 takes the greedy continuation; more take the best of so many that beam search keeps.

    References:
        Carlini et al. 2021, arXiv 2012.07805; Carlini et al. 2023, arXiv 2202.07646.
    """

    beams: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.beams, bool) or not isinstance(self.beams, int) or self.beams < 1:
            raise ConfigError(f"extraction.beams is {self.beams!r}; expected a whole number of at least 1")

    @property
    def needs(self) -> Needs:
        """Continuations; no references."""
        return Needs(signals={Continuations() if self.beams == 1 else BeamContinuations(beams=self.beams)})

    @property
    def unit(self) -> SecretUnit:
        """Share of a secret; the whole of it is extracted."""
        way = "written greedily" if self.beams == 1 else f"in the best of {self.beams} continuations"
        return SecretUnit(quantity=f"share of a secret {way}", levels=(0.5, 1.0))

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """The share, `(m,)` float64."""
        (signal,) = self.needs.signals
        return canary_reading.text_signal(target, signal.key, "extraction")


PLUGIN = Extraction
