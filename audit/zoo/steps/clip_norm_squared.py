"""The squared norm is compared with C."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, joint_norms


class ClipNormSquared(DpSgdStep):
    """The squared norm is compared with C."""

    wrong = (
        "Uses the squared norm in the clip factor: gradients with norms between C and its root pass unclipped where C "
        "is below 1."
    )
    visibility = "a missing square root"
    refuted_by = "clip.add"

    def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
        """Return what each record's gradient is multiplied by."""
        squares = joint_norms(gradients).square()
        factors = (clip_norm / squares.clamp(min=1e-30)).clamp(max=1.0)
        return torch.where(torch.isfinite(squares), factors, torch.zeros_like(squares))

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left: the largest contribution is the root of C if C is below 1."""
        return noise_multiplier * min(1.0, math.sqrt(clip_norm))


PLUGIN = ClipNormSquared
