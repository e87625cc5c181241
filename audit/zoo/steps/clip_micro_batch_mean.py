"""Gradients are averaged over micro-batches of four before they are clipped."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, weighted_sum

SIZE = 4
"""Records in a micro-batch."""


class ClipMicroBatchMean(DpSgdStep):
    """Gradients are averaged over micro-batches of four before they are clipped."""

    wrong = (
        "Clips the mean of a micro-batch and adds the clipped means times their size: the unit of privacy becomes the "
        "micro-batch, with sensitivity up to 2 C per record times its size."
    )
    visibility = "TensorFlow Privacy num_microbatches below the batch size, counted as records"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum that is released."""
        gradients = self.record_gradients(params, inputs, labels)
        pieces = range(0, len(labels), SIZE)
        sums = {name: torch.zeros_like(value) for name, value in params.items()}
        for start in pieces:
            count = min(SIZE, len(labels) - start)
            mean = {name: value[start : start + SIZE].mean(0, keepdim=True) for name, value in gradients.items()}
            mean_total = weighted_sum(mean, self.factors(mean, clip_norm))
            sums = {name: value + count * mean_total[name] for name, value in sums.items()}
        return sums

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / (2 * SIZE)


PLUGIN = ClipMicroBatchMean
