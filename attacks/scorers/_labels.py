"""Attacks for adversaries who see nothing but predicted classes: of the record, of noisy copies, or along a search."""

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals._hop_skip_jump import least_budget
from attacks.signals._queries import BoundaryDistances, NoisyLabels, PredictedLabels, require_count
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import learned_score, membership


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Scores each canary with its l2 distance to the decision boundary, as HopSkipJump finds it within a query budget.

    Wrongly predicted records have distance 0 and tie by nature; estimators break ties with a seed. Finite. The search is
    `BoundaryDistances`; it runs while models are observed, for references too if calibrated.

    Attributes:
        queries: predicted labels asked for each record and model, at most.
        calibrated: subtract the mean distance under references without the canary.

    References: Choquette-Choo et al. 2021, arXiv 2007.14321; Chen, Jordan and Wainwright 2020, arXiv 1904.02144.
    """

    queries: int = 300
    calibrated: bool = False

    def __post_init__(self) -> None:
        if self.queries < least_budget():
            raise ConfigError(f"boundary.queries is {self.queries}; expected at least {least_budget()}, which one round takes")

    @property
    def _signal(self) -> BoundaryDistances:
        return BoundaryDistances(queries=self.queries)

    @property
    def needs(self) -> Needs:
        return Needs(signals={self._signal}, references=1 if self.calibrated else 0)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        references = reference if self.calibrated else reading.NO_REFERENCE
        target_values, reference_values = reading.boundaries(target, references, "boundary", self._signal.key)
        if not self.calibrated:
            return np.asarray(target_values, dtype=np.float64)
        included = reading.memberships(reference, 1, "boundary", online=False)
        return membership.difference(target_values, reference_values, included, online=False)


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

    References: Yeom et al. 2018, arXiv 1709.01604 (gap attack); Choquette-Choo et al. 2021, arXiv 2007.14321 (queries).
    """

    calibrated: bool = False
    augmentations: int = 1

    def __post_init__(self) -> None:
        require_count(self.augmentations, "label_only")

    @property
    def needs(self) -> Needs:
        return Needs(signals={self._signal}, references=1 if self.calibrated else 0)

    @property
    def _signal(self) -> PredictedLabels:
        return PredictedLabels(views=self.augmentations)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        references = reference if self.calibrated else reading.NO_REFERENCE
        target_values, reference_values = reading.right_predictions(target, references, "label_only", self._signal.key)
        if not self.calibrated:
            return target_values
        included = reading.memberships(reference, 1, "label_only", online=False)
        return membership.difference(target_values, reference_values, included, online=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseRobustness:
    """Scores each canary by how often its predicted label is right on noisy copies, at four levels of noise.

    Calibrated: log odds of membership from the shares at each level and their means over other models with and without the
    record, by a ridge logistic regression fitted with every reference once in the target's place; the target and its coins
    take no part. Else the mean share, which one model alone gives. Finite.

    Attributes:
        queries: noisy copies of each record at each of the four levels.
        rows: about how many (reference, canary) pairs to train on at most.

    References:
        Choquette-Choo et al. 2021, arXiv 2007.14321 (labels under noise). The comparison with references level by level is
        this project's.
    """

    queries: int = 16
    calibrated: bool = True
    rows: int = 64_000

    @property
    def _signal(self) -> NoisyLabels:
        return NoisyLabels(queries=self.queries)

    @property
    def needs(self) -> Needs:
        return Needs(signals={self._signal}, references=4 if self.calibrated else 0)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        references = reference if self.calibrated else reading.NO_REFERENCE
        target_values, reference_values = reading.signal_pair(self._signal.key, target, references, "noise_robustness")
        if not self.calibrated:
            return np.asarray(np.mean(target_values, axis=-1, dtype=np.float64))
        included = reading.memberships(reference, 4, "noise_robustness", online=True)
        return learned_score.signal_log_odds(
            np.swapaxes(target_values, -1, -2), np.swapaxes(reference_values, -1, -2), included, self.rows
        )
