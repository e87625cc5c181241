"""Shadow classifier: learns from the references what predictions for members look like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals.logits import Logits
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import logistic, reference_fit, signals
from audit.stats.spread import parts


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowClassifier:
    """Scores each canary with the log odds of membership by a classifier trained on the references alone.

    Features of one prediction: the largest log probabilities, that of the true class, the logit-scaled
    confidence and whether the prediction is right, with all products of two; a ridge logistic
    regression, so there is nothing to tune. It does not know the record: it is the classical attack,
    kept for comparison, and weaker than those that compare the same record between models. Finite.

    Attributes:
        top: how many of the largest probabilities to look at.
        rows: about how many (reference, canary) pairs to train on at most (whole references; of more records than
            that an evenly spread part of one).

    References:
        Shokri et al. 2017, arXiv 1610.05820; Salem et al. 2019, arXiv 1806.01246.
    """

    top: int = 3
    rows: int = 64_000

    @property
    def needs(self) -> Needs:
        """Outputs of the final model and one reference."""
        return Needs(signals={Logits()}, references=1)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log odds of membership, `(m,)` float64."""
        included = reading.memberships(reference, 1, "shadow_classifier", online=True)
        logits, labels = reading.logits(target, "shadow_classifier")
        their_logits = reading.reference_logits(reference, "shadow_classifier")
        models, columns = reference_fit.training_pairs(included, self.rows)
        features = [
            self._features(their_logits[model].reshape(-1, *logits.shape[1:])[:, columns], labels[columns])
            for model in range(models)
        ]
        classifier = logistic.fit(np.concatenate(features), included[:models, columns].ravel())
        scores = np.empty(len(labels))
        for part in parts(len(labels)):
            scores[part] = classifier.log_odds(self._features(logits[:, part], labels[part]))
        return scores

    def _features(self, logits: Array, labels: Array) -> Array:
        """`(m, features)`, averaged over queries."""
        top = signals.top_confidences(logits, labels, self.top)
        confidence = signals.scaled_confidence(logits, labels)[..., None]
        right = signals.correct(logits, labels)[..., None]
        return logistic.with_squares(np.concatenate([top, confidence, right], axis=-1).mean(axis=0))


PLUGIN = ShadowClassifier
