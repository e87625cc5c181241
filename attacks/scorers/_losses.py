"""A record's loss as it is, or beside what references say of the record."""

from dataclasses import dataclass
from typing import ClassVar

from attacks.signals import _reading as reading
from attacks.signals.logits import Confidences, Logits, Losses
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import membership


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Scores each canary with minus its cross-entropy loss in nats, averaged over queries.

    Scores are finite. A loss is computed from the logit-scaled confidence, so small losses keep their
    order long after the probability has rounded to one.

    References: Yeom et al. 2018, arXiv 1709.01604.
    """

    needs: ClassVar[Needs] = Needs(signals={Logits()}, instead={Losses()}, reductions={Confidences()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return -reading.losses(target, reading.NO_REFERENCE, "loss")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """Scores each canary with its logit-scaled confidence minus what the references make of it.

    Difficulty calibration. Online the offset is the midpoint between models with and without the canary,
    offline the mean of models without it. Finite; averaged over queries. Works from one reference on.

    Attributes:
        online: use the references that trained on the canary, too.

    References: Sablayrolles et al. 2019, arXiv 1908.11229 (online); Watson et al. 2022, arXiv 2111.08440 (offline).
    """

    online: bool = True
    needs: ClassVar[Needs] = Needs(signals={Logits()}, instead={Losses()}, reductions={Confidences()}, references=1)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        included = reading.memberships(reference, 1, "offset", online=self.online)
        target_values, reference_values = reading.mean_confidences(target, reference, "offset")
        return membership.difference(target_values, reference_values, included, online=self.online)
