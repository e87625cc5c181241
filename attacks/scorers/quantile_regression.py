"""Quantile regression: is the model surer of this record than of nonmembers that look like it? Needs no other model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals._nonmember_medians import NonmemberMedians
from attacks.signals.logits import Logits
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileRegression:
    """Scores each record with its confidence less the median that a regression on known nonmembers predicts for such a record.

    The regression maps a record (its inputs and its class) to a quantile of the model's confidence in it. It is cross-fitted:
    each record's prediction comes from nonmembers of other folds, never from itself.

    It needs to know some nonmembers, which is why it is for models that a user brought, and proves no epsilon. Of the levels
    that were tried (0.5, 0.9, 0.95) the median finds most members over all false positive rates (docs/evidence/results.md).

    References:
        Bertran et al. 2023, arXiv 2307.03694.
    """

    @property
    def needs(self) -> Needs:
        """Outputs of the final model, and records that are known nonmembers; no references."""
        return Needs(signals={Logits(), NonmemberMedians()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Confidence above the predicted median, `(m,)` float64.

        Raises:
            ObservationError: no nonmembers are known.
        """
        medians = target.get(NonmemberMedians.key)
        if medians is None:
            raise ObservationError(
                "attack 'quantile_regression' is fitted on known nonmembers and there are none; use it in `audit model`"
            )
        values, _ = reading.mean_confidences(target, reading.NO_REFERENCE, "quantile_regression")
        return values - np.asarray(medians, dtype=np.float64)


PLUGIN = QuantileRegression
