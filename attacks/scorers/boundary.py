"""Boundary: how far a record must be moved before its predicted label changes, found by label queries alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals._hop_skip_jump import least_budget
from attacks.signals._queries import BoundaryDistances
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import membership


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Scores each canary with its l2 distance to the decision boundary, as HopSkipJump finds it within a query budget.

    Wrongly predicted records have distance 0 and tie by nature; estimators break ties with a seed. Finite. The search is
    `BoundaryDistances`; it runs while models are observed, for references too if calibrated.

    Attributes:
        queries: predicted labels asked for each record and model, at most.
        calibrated: subtract the mean distance under references without the canary.

    References:
        Choquette-Choo et al. 2021, arXiv 2007.14321; Chen, Jordan and Wainwright 2020, arXiv 1904.02144.
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
        """Predicted labels of the final model; one reference if calibrated."""
        return Needs(signals={self._signal}, references=1 if self.calibrated else 0)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Distance, or how far it exceeds that under models without the canary, `(m,)` float64."""
        references = reference if self.calibrated else reading.NO_REFERENCE
        target_values, reference_values = reading.boundaries(target, references, "boundary", self._signal.key)
        if not self.calibrated:
            return np.asarray(target_values, dtype=np.float64)
        included = reading.memberships(reference, 1, "boundary", online=False)
        return membership.difference(target_values, reference_values, included, online=False)


PLUGIN = Boundary
