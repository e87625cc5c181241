"""White-box classifier: outputs, gradients and hidden representation, weighed as the references show they should be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals._white_box import ClassDistances, GradientNorms, LastGradientNorms
from attacks.signals.confidences import Confidences
from attacks.signals.logits import Logits
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import learned_score


@dataclass(frozen=True, slots=True, kw_only=True)
class WhiteBoxClassifier:
    """Scores each canary with log odds of membership from its outputs, its gradient and its hidden representation.

    Signals: the logit-scaled confidence, and the logs of the norm of its loss gradient in all parameters, of that in the last
    layer, and of the distance of its hidden representation to the mean of its class; the last two where the outputs come
    from a linear layer. Features: each signal, and its means over other models with and without the record. A ridge logistic
    regression is fitted with every reference once in the target's place; the target and its coins take no part. Finite.

    On trained classifiers the other signals follow the confidence closely: the score is about as strong as
    `learned_combination`, which sees the outputs alone (docs/evidence/results.md).

    Attributes:
        rows: about how many (reference, canary) pairs to train on at most (whole references; of more records than
            that an evenly spread part of one).

    References:
        Nasr et al. 2019, arXiv 1812.00910 (the signals; there a network learns from them).
    """

    rows: int = 64_000

    @property
    def needs(self) -> Needs:
        """Final weights and four references."""
        return Needs(
            signals={Logits(), GradientNorms()},
            optional={LastGradientNorms(), ClassDistances()},
            reductions={Confidences()},
            references=4,
        )

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log odds of membership, `(m,)` float64."""
        included = reading.memberships(reference, 4, "white_box_classifier", online=True)
        features = [reading.mean_confidences(target, reference, "white_box_classifier")]
        features += [reading.log_lengths(target, reference, "white_box_classifier", key) for key in _signals(target)]
        target_values, reference_values = (np.stack(side, axis=-2) for side in zip(*features, strict=True))
        return learned_score.signal_log_odds(target_values, reference_values, included, self.rows, squares=True)


def _signals(target: View) -> list[str]:
    """The lengths that were observed; the gradient in all parameters must have been."""
    keys = [key for key in (LastGradientNorms.key, ClassDistances.key) if target.get(key) is not None]
    return [GradientNorms.key, *keys]


PLUGIN = WhiteBoxClassifier
