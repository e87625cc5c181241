"""Attacks that read one figure of the outputs, averaged over queries; a loss as it is, or beside what references say of it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals.logits import Confidences, Logits, Losses, OutputFigures
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import membership


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureScorer:
    """An attack on one figure of each record's outputs.

    Attributes:
        sign: -1 if small figures speak for membership.
    """

    attack: ClassVar[str]
    figure: ClassVar[str]
    sign: ClassVar[float] = 1.0

    @property
    def needs(self) -> Needs:
        return Needs(signals={Logits()}, reductions={OutputFigures(figure=self.figure)})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return self.sign * np.asarray(reading.output_figure(target, self.figure, self.attack).mean(axis=0))


class Confidence(FigureScorer):
    """Scores each canary with the log odds of the class predicted for it; needs no true label.

    Finite; averaged over queries. The same order as the largest probability, without its rounding to one.

    References: Salem et al. 2019, arXiv 1806.01246, adversary 3 (largest posterior).
    """

    attack = "confidence"
    figure = "top_confidence"


class Entropy(FigureScorer):
    """Scores each canary with minus the Shannon entropy of its prediction in nats; needs no true label.

    Finite; averaged over queries.

    References: Shokri et al. 2017, arXiv 1610.05820; Salem et al. 2019, arXiv 1806.01246.
    """

    attack = "entropy"
    figure = "entropy"
    sign = -1.0


class ModifiedEntropy(FigureScorer):
    """Scores each canary with minus the modified entropy of its prediction; finite, averaged over queries.

    References: Song and Mittal 2021, arXiv 2003.10595, section 3.2.
    """

    attack = "modified_entropy"
    figure = "modified_entropy"
    sign = -1.0


class OutputGradient(FigureScorer):
    """Scores each canary with minus the log of the l2 norm of its loss gradient in the logits.

    It is the gradient of the last layer's bias, a factor of that of the last layer's weights, and follows from the outputs.
    Finite; averaged over queries.

    References: Nasr et al. 2019, arXiv 1812.00910, section 3 (gradients of the last layer).
    """

    attack = "output_gradient"
    figure = "log_gradient_norm"
    sign = -1.0


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
