"""Label only: the gap attack, for adversaries who see nothing but the predicted class."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _reading as reading
from attacks.signals._image_views import require_count
from attacks.signals._queries import PredictedLabels
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import membership


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOnly:
    """Scores each canary with the share of correctly classified queries: 1 or 0 for a single query.

    Its advantage is the gap between training and test accuracy, which any confidence-based attack has to
    beat. Scores tie by nature; estimators break ties with a seed.

    Attributes:
        calibrated: subtract how often references without the canary are right about it, which makes a
            right answer count for more if other models are wrong.
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
        """Predicted labels; one reference if calibrated."""
        return Needs(signals={self._signal}, references=1 if self.calibrated else 0)

    @property
    def _signal(self) -> PredictedLabels:
        return PredictedLabels(views=self.augmentations)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Share of right predictions, minus the references' if calibrated, `(m,)` float64."""
        references = reference if self.calibrated else reading.NO_REFERENCE
        target_values, reference_values = reading.right_predictions(target, references, "label_only", self._signal.key)
        if not self.calibrated:
            return target_values
        included = reading.memberships(reference, 1, "label_only", online=False)
        return membership.difference(target_values, reference_values, included, online=False)


PLUGIN = LabelOnly
