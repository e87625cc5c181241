"""Output gradient: the loss hardly pulls on what has been fitted."""

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
class OutputGradient:
    """Scores each canary with minus the log of the l2 norm of its loss gradient in the logits.

    That is the gradient of the last layer's bias, and a factor of the gradient of the last layer's
    weights; it follows from the outputs, so it needs no access to the weights. Finite; averaged over
    queries.

    References:
        Nasr et al. 2019, arXiv 1812.00910, section 3 (gradients of the last layer).
    """

    @property
    def needs(self) -> Needs:
        """Outputs of the final model; no references."""
        return Needs(signals={Logits()}, reductions={OutputFigures(figure="log_gradient_norm")})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Minus the log norm of softmax minus one-hot label, `(m,)` float64."""
        return -np.asarray(reading.output_figure(target, "log_gradient_norm", "output_gradient").mean(axis=0))


PLUGIN = OutputGradient
