"""Inputs are standardised by the batch, as batch normalisation does."""

from __future__ import annotations

from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors


class BatchStatistics(DpSgdStep):
    """Inputs are standardised by the batch, as batch normalisation does."""

    wrong = "Every record enters every other record's gradient through mean and variance of the batch."
    visibility = "BatchNorm left in a model under DP-SGD"
    refuted_by = "sum.additive"

    def record_gradients(self, params: Tensors, inputs: Tensor, labels: Tensor) -> Tensors:
        """Return gradients at inputs standardised over the batch."""
        if len(labels) > 1:
            inputs = (inputs - inputs.mean(0)) / (inputs.var(0, unbiased=False) + 1e-5).sqrt()
        return super().record_gradients(params, inputs, labels)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / (2 * divisor)


PLUGIN = BatchStatistics
