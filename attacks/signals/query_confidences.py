"""Confidence on records that a model is asked about in place of a canary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.data import Array, Canaries
from audit.core.models import Models
from audit.stats.scoring import signals

MOST = 1 << 10  # queries of a canary, for the estimate of memory


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConfidences:
    """Logit-scaled confidence in the true label of each of a canary's queries."""

    key = "query_confidences"
    source = "outputs"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return MOST

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m, q)` float32; None for canaries without queries."""
        queries = canaries.queries
        if queries is None:
            return None
        values = signals.scaled_confidence(models.outputs(queries.inputs), queries.labels)
        return np.asarray(values.reshape(len(values), len(canaries), -1), dtype=np.float32)


PLUGIN = QueryConfidences
