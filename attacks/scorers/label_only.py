"""Label only: the gap attack, for adversaries who see nothing but the predicted class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import reading
from attacks.signals.augmented import require_count
from audit.core.data import Array, ReferenceView, TargetView
from audit.core.game import Access
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.stats.scoring import membership, signals


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOnly:
    """Scores each canary with the share of queries whose predicted class is right: 1 or 0 for a single query.

    Its advantage is the gap between training and test accuracy, which any confidence-based attack has to
    beat. Scores tie by nature; estimators break ties with a seed.

    Attributes:
        calibrated: subtract how often references without the canary are right about it, which makes a
            right answer count for more where other models are wrong.
        augmentations: views of each image to ask about: itself, mirrored, shifted by a pixel (18 at most). For models that were
            trained on such views; others remember the image alone, and further views dilute what it shows.

    References:
        Yeom et al. 2018, arXiv 1709.01604 (gap attack); Choquette-Choo et al. 2021, arXiv 2007.14321 (queries).
    """

    calibrated: bool = False
    augmentations: int = 1

    def __post_init__(self) -> None:
        require_count(self.augmentations, "label_only")

    @property
    def needs(self) -> Needs:
        """Predicted labels; one reference where calibrated."""
        references = 1 if self.calibrated else 0
        return Needs(access=Access.LABEL_ONLY, references=references, augmentations=self.augmentations)

    def score(self, target: TargetView, reference: ReferenceView, seed: Seed) -> Array:
        """Share of right predictions, minus the references' where calibrated, `(m,)` float64."""
        known = reference if self.calibrated else reading.NO_REFERENCE
        target, reference = reading.augmented(target, known, self.augmentations, "label_only")
        logits, labels = reading.logits(target, "label_only")
        ours = np.asarray(signals.correct(logits, labels).mean(axis=0), dtype=np.float64)
        if not self.calibrated:
            return ours
        included = reading.memberships(reference, 1, "label_only", online=False)
        theirs = reading.reference_logits(reference, "label_only")
        right = signals.correct(theirs, labels).reshape(len(theirs), -1, len(labels)).mean(axis=1)
        return membership.difference(ours, right, included, online=False)


PLUGIN = LabelOnly
