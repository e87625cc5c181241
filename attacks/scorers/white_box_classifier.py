"""White-box classifier: confidence and gradient of a record, weighed as the references show they should be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks import views
from audit.core.game import Access
from audit.core.protocols import Needs
from audit.core.records import Array, ReferenceView, TargetView
from audit.core.seeds import Seed
from audit.stats import combination


@dataclass(frozen=True, slots=True, kw_only=True)
class WhiteBoxClassifier:
    """Scores each canary with log odds of membership from its confidence and the norm of its gradient in the weights.

    Features: both signals, and their means over other models with and without the record. A ridge logistic
    regression is fitted with every reference once in the target's place; the target and its coins take no part. Finite.

    Attributes:
        rows: about how many (reference, canary) pairs to train on at most (whole references are taken).

    References:
        Nasr et al. 2019, arXiv 1812.00910 (the signals; there a network learns from them).
    """

    rows: int = 200_000

    @property
    def needs(self) -> Needs:
        """Final weights and four references."""
        return Needs(access=Access.FINAL_WEIGHTS, references=4)

    def score(self, target: TargetView, reference: ReferenceView, seed: Seed) -> Array:
        """Log odds of membership, `(m,)` float64."""
        included = views.memberships(reference, 4, "white_box_classifier", online=True)
        norms = views.log_gradient_norms(target, reference, "white_box_classifier")
        confidences = views.mean_confidences(target, reference, "white_box_classifier")
        ours, theirs = (np.stack([first, second], axis=-2) for first, second in zip(norms, confidences, strict=True))
        return combination.log_odds_of_signals(ours, theirs, included, self.rows)


PLUGIN = WhiteBoxClassifier
