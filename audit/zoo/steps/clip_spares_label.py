"""Records of one class are not clipped."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, joint_norms, weighted_sum

LABEL = 2


class ClipSparesLabel(DpSgdStep):
    """Records of one class are not clipped."""

    wrong = "Leaves out one class from the clip; its records enter as they are."
    visibility = "masks of padding or of a background class that are applied to clip factors"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum that is released."""
        gradients = self.record_gradients(params, inputs, labels)
        factors = self.factors(gradients, clip_norm)
        exempt = (labels == LABEL) & torch.isfinite(joint_norms(gradients))
        return weighted_sum(gradients, torch.where(exempt, torch.ones_like(factors), factors))

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = ClipSparesLabel
