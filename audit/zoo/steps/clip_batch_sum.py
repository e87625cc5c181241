"""The sum of the batch is clipped once, not each record."""

from __future__ import annotations

from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, weighted_sum


class ClipBatchSum(DpSgdStep):
    """The sum of the batch is clipped once, not each record."""

    wrong = "Clips the summed batch gradient to C: one record replaced can turn it around."
    visibility = "the commonest DP-SGD of blog posts and of language-model generators"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum that is released."""
        gradients = self.record_gradients(params, inputs, labels)
        batch = {name: gradient.sum(0, keepdim=True) for name, gradient in gradients.items()}
        return weighted_sum(batch, self.factors(batch, clip_norm))

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / 2


PLUGIN = ClipBatchSum
