"""Each parameter tensor is clipped to C, and C is accounted for."""

from __future__ import annotations

import math

from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, small_parameters, weighted_sum


class ClipPerTensor(DpSgdStep):
    """Each parameter tensor is clipped to C, and C is accounted for."""

    wrong = (
        "Clips each parameter tensor to C separately and counts C: the joint norm is C times the root of the number of tensors."
    )
    visibility = "torch.nn.utils.clip_grad_norm_ called per parameter"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum that is released."""
        gradients = self.record_gradients(params, inputs, labels)
        return {
            name: weighted_sum({name: gradient}, self.factors({name: gradient}, clip_norm))[name]
            for name, gradient in gradients.items()
        }

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / math.sqrt(len(small_parameters()))


PLUGIN = ClipPerTensor
