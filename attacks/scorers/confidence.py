"""Confidence: a model is surer of what it has seen, whatever it predicts."""

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
class Confidence:
    """Scores each canary with the log odds of the class predicted for it; needs no true label.

    Finite; averaged over queries. The same order as the largest probability, without its rounding to one.

    References:
        Salem et al. 2019, arXiv 1806.01246, adversary 3 (largest posterior).
    """

    @property
    def needs(self) -> Needs:
        """Outputs of the final model; no references."""
        return Needs(signals={Logits()}, reductions={OutputFigures(figure="top_confidence")})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log odds of the predicted class, `(m,)` float64."""
        return np.asarray(reading.output_figure(target, "top_confidence", "confidence").mean(axis=0))


PLUGIN = Confidence
