"""The mean of the batch is clipped to C and multiplied by its size."""

from __future__ import annotations

from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, weighted_sum


class ClipBatchMean(DpSgdStep):
    """The mean of the batch is clipped to C and multiplied by its size."""

    wrong = "Clips after averaging over the batch: one record moves the sum by up to 2 C times the batch size."
    visibility = "home-made training_step of a fine-tuning guide"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum that is released."""
        gradients = self.record_gradients(params, inputs, labels)
        count = max(1, len(labels))
        batch = {name: gradient.sum(0, keepdim=True) / count for name, gradient in gradients.items()}
        return {name: count * value for name, value in weighted_sum(batch, self.factors(batch, clip_norm)).items()}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / (2 * divisor)


PLUGIN = ClipBatchMean
