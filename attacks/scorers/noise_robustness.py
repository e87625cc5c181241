"""Noise robustness: whether a record's predicted label survives noise better than under models that lack the record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals._queries import NoisyLabels
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import learned_score


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseRobustness:
    """Scores each canary by how often its predicted label is right on noisy copies, at four levels of noise.

    Calibrated: log odds of membership from the shares at each level and their means over other models with and without the
    record, by a ridge logistic regression that is fitted with every reference once in the target's place; the target and its
    coins take no part. Else the mean share, which one model alone gives. Finite. Predicted labels are all that is asked for.

    Attributes:
        queries: noisy copies of each record at each of the four levels.
        calibrated: compare with references.
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
        """Predicted labels of noisy copies; four references if calibrated."""
        return Needs(signals={self._signal}, references=4 if self.calibrated else 0)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log odds of membership if calibrated, else the mean share of right labels, `(m,)` float64."""
        references = reference if self.calibrated else reading.NO_REFERENCE
        target_values, reference_values = reading.signal_pair(self._signal.key, target, references, "noise_robustness")
        if not self.calibrated:
            return np.asarray(np.mean(target_values, axis=-1, dtype=np.float64))
        included = reading.memberships(reference, 4, "noise_robustness", online=True)
        return learned_score.signal_log_odds(
            np.swapaxes(target_values, -1, -2), np.swapaxes(reference_values, -1, -2), included, self.rows
        )


PLUGIN = NoiseRobustness
