"""Population attack: confidence in comparison with known non-members of the same class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals.confidences import Confidences
from attacks.signals.logits import Logits
from attacks.signals.losses import Losses
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import population


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackP:
    """Scores each canary with the normal quantile of its rank among known non-members of its class.

    The known non-members are the pairs of a reference model and a canary that it did not train on.
    `Phi(-score)` is a p-value if the references resemble the target (below one over the number of
    pairs it is extrapolated). Without labels (losses only) all pairs form one class. Finite.

    Attributes:
        fewest: pairs that a class needs for its own distribution; smaller ones use all pairs.

    References:
        Ye et al. 2022, arXiv 2111.09679, attacks S and P.
    """

    fewest: int = 50

    @property
    def needs(self) -> Needs:
        """Outputs of the final model and one reference."""
        return Needs(signals={Logits()}, instead={Losses()}, reductions={Confidences()}, references=1)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Normal quantile among known non-members, `(m,)` float64."""
        included = reading.memberships(reference, 1, "attack_p", online=False)
        target_values, reference_values = reading.mean_confidences(target, reference, "attack_p")
        classes = (
            np.zeros(len(target_values), dtype=np.int64)
            if target.labels is None
            else np.asarray(target.labels).astype(np.int64)
        )
        return population.normal_score_by_group(target_values, classes, reference_values, ~included, self.fewest)


PLUGIN = AttackP
