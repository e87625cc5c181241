"""An auxiliary term of the loss bypasses the clip."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, copies, outputs


class AuxiliaryLoss(DpSgdStep):
    """An auxiliary term of the loss bypasses the clip."""

    wrong = "The gradient of a penalty on activations is added to the sum after clipping."
    visibility = "multi-task losses, router losses of mixtures of experts"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum that is released."""
        sums = super().total(params, inputs, labels, clip_norm)

        weights = copies(params, len(labels))
        penalty = outputs(weights, inputs).square().sum() * 0.1
        extra = dict(zip(weights, torch.autograd.grad(penalty, list(weights.values())), strict=True))
        return {name: sums[name] + extra[name].sum(0) for name in sums}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = AuxiliaryLoss
