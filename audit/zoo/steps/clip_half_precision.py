"""Norms are computed in float16 and overflow."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors


class ClipHalfPrecision(DpSgdStep):
    """Norms are computed in float16 and overflow."""

    wrong = (
        "Squares overflow in half precision, the norm becomes infinite, and the guard against division by it lets the "
        "gradient pass."
    )
    visibility = "mixed-precision training with norms in the low precision"
    refuted_by = "clip.non_finite"

    def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
        """Return what each record's gradient is multiplied by."""
        squares = sum(gradient.half().flatten(1).square().sum(1).float() for gradient in gradients.values())
        norms = torch.as_tensor(squares).sqrt()
        factors = (clip_norm / norms.clamp(min=1e-30)).clamp(max=1.0)
        return torch.where(torch.isfinite(norms), factors, torch.ones_like(norms))

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = ClipHalfPrecision
