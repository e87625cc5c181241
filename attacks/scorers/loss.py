"""Loss threshold: a record that the model predicts well is taken for a member."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _reading as reading
from attacks.signals.logits import Confidences, Logits, Losses
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Scores each canary with minus its cross-entropy loss in nats, averaged over queries.

    Scores are finite. A loss is computed from the logit-scaled confidence, so small losses keep their
    order long after the probability has rounded to one.

    References:
        Yeom et al. 2018, arXiv 1709.01604.
    """

    @property
    def needs(self) -> Needs:
        """Outputs of the final model; no references."""
        return Needs(signals={Logits()}, instead={Losses()}, reductions={Confidences()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Minus the loss of each canary, `(m,)` float64."""
        return -reading.losses(target, reading.NO_REFERENCE, "loss")[0]


PLUGIN = Loss
