"""Gradients of the batch-mean loss are clipped: each is 1/B of what it should be."""

from __future__ import annotations

from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, weighted_sum


class ClipAfterScaling(DpSgdStep):
    """Gradients of the batch-mean loss are clipped: each is 1/B of what it should be."""

    wrong = "Clips gradients that were divided by the realised batch size, then multiplies by it: the bound becomes B times C."
    visibility = "per-record gradients of a mean-reduced loss"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum that is released."""
        gradients = self.record_gradients(params, inputs, labels)
        count = max(1, len(labels))
        mean_gradients = {name: gradient / count for name, gradient in gradients.items()}
        return {
            name: count * value for name, value in weighted_sum(mean_gradients, self.factors(mean_gradients, clip_norm)).items()
        }

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / divisor


PLUGIN = ClipAfterScaling
