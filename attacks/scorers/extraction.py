"""Extraction: a secret that the model writes itself was in its training data."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _reading as reading
from attacks.signals.continuations import Continuations
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Scores each text with the share of its secret that the model writes greedily after the text before it.

    References:
        Carlini et al. 2021, arXiv 2012.07805; Carlini et al. 2023, arXiv 2202.07646.
    """

    @property
    def needs(self) -> Needs:
        """Greedy continuations; no references."""
        return Needs(signals={Continuations()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """The share, `(m,)` float64."""
        return reading.text_signal(target, "continuations", "extraction")


PLUGIN = Extraction
