"""The clip norm is the median of the batch's norms if that is smaller."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, joint_norms


class ClipAtMedian(DpSgdStep):
    """The clip norm is the median of the batch's norms if that is smaller."""

    wrong = "Clips at the median norm of the batch: a record that moves the median moves every other record's share."
    visibility = "adaptive clipping whose quantile is taken of the batch itself, without noise"
    refuted_by = "sum.additive"

    def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
        """Return what each record's gradient is multiplied by, `(n,)`."""
        norms = joint_norms(gradients)
        norms = norms[torch.isfinite(norms)]
        return super().factors(gradients, min(clip_norm, float(norms.median())) if len(norms) else clip_norm)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / divisor


PLUGIN = ClipAtMedian
