"""Outputs for several views of each image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _image_views
from audit.core.data import Array, Canaries
from audit.core.models import Models


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentedLogits:
    """Outputs for the record itself, mirrored, and shifted by a pixel: as many views as are asked for, the record first."""

    views: int

    source = "queries"

    @property
    def key(self) -> str:
        return f"augmented_logits_{self.views}"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return self.views * max(classes, 1)

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, views, m, classes)`; None for canaries that are gradients."""
        if canaries.records is None:
            return None
        views = _image_views.make_views(canaries.records.inputs, self.views)
        return np.stack([models.outputs(view) for view in views], axis=1)


PLUGIN = AugmentedLogits
