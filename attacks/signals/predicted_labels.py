"""Predicted classes: all that the most guarded model gives away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _image_views
from audit.core.data import Array, Canaries
from audit.core.models import Models


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedLabels:
    """The class that a model predicts for each of some views of a record: itself, mirrored, shifted by a pixel."""

    views: int = 1

    @property
    def source(self) -> str:
        return "labels" if self.views == 1 else "label_queries"

    @property
    def key(self) -> str:
        return "predicted_labels" if self.views == 1 else f"predicted_labels_{self.views}"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 2 * self.views

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, views, m)` int64; None for canaries that are gradients."""
        if canaries.records is None:
            return None
        inputs = canaries.records.inputs
        views = [inputs] if self.views == 1 else _image_views.make_views(inputs, self.views)
        return np.stack([models.outputs(view).argmax(axis=-1) for view in views], axis=1)


PLUGIN = PredictedLabels
