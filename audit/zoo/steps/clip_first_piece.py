"""Only the first piece of a batch is clipped."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, joint_norms

SIZE = 12
"""Records in the first piece."""


class ClipFirstPiece(DpSgdStep):
    """Only the first piece of a batch is clipped."""

    wrong = "Computes clip factors for the first 12 records of a batch; what comes after them enters unclipped."
    visibility = "loops over chunks whose clip stands outside of the loop; buffers of a fixed size"
    refuted_by = "clip.add"

    def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
        """Return what each record's gradient is multiplied by, `(n,)`."""
        factors = super().factors(gradients, clip_norm)
        later = (torch.arange(len(factors)) >= SIZE) & torch.isfinite(joint_norms(gradients))
        return torch.where(later, torch.ones_like(factors), factors)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = ClipFirstPiece
