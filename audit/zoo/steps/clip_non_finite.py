"""Gradients that are not finite pass the clip."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, joint_norms


class ClipNonFinite(DpSgdStep):
    """Gradients that are not finite pass the clip."""

    wrong = "A record whose gradient is infinite or NaN enters the sum as it is."
    visibility = "Opacus, FedAvg aggregators, many home-made loops"
    refuted_by = "clip.non_finite"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum that is released."""
        gradients = self.record_gradients(params, inputs, labels)
        factors = (clip_norm / joint_norms(gradients).clamp(min=1e-30)).clamp(max=1.0)
        return {name: torch.einsum("n,n...->...", factors, gradient) for name, gradient in gradients.items()}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = ClipNonFinite
