"""Modified entropy: concentration on the right class speaks for membership, on a wrong one against it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals.logits import Logits
from attacks.signals.output_figures import OutputFigures
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifiedEntropy:
    """Scores each canary with minus the modified entropy of its prediction; finite, averaged over queries.

    References:
        Song and Mittal 2021, arXiv 2003.10595, section 3.2.
    """

    @property
    def needs(self) -> Needs:
        """Outputs of the final model; no references."""
        return Needs(signals={Logits()}, reductions={OutputFigures(figure="modified_entropy")})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Minus the modified entropy, `(m,)` float64."""
        return -np.asarray(reading.output_figure(target, "modified_entropy", "modified_entropy").mean(axis=0))


PLUGIN = ModifiedEntropy
