"""Entropy: predictions for members are concentrated on few classes."""

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
class Entropy:
    """Scores each canary with minus the Shannon entropy of its prediction in nats; needs no true label.

    Finite; averaged over queries.

    References:
        Shokri et al. 2017, arXiv 1610.05820; Salem et al. 2019, arXiv 1806.01246.
    """

    @property
    def needs(self) -> Needs:
        """Outputs of the final model; no references."""
        return Needs(signals={Logits()}, reductions={OutputFigures(figure="entropy")})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Minus the entropy, `(m,)` float64."""
        return -np.asarray(reading.output_figure(target, "entropy", "entropy").mean(axis=0))


PLUGIN = Entropy
