"""Clips per-record gradients of a loss that is averaged over the batch."""

from __future__ import annotations

from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors


class ClipGradientsOfMean(DpSgdStep):
    """Clips per-record gradients of a loss that is averaged over the batch."""

    wrong = (
        "Divides each record's gradient by the size of the batch "
        "before the clip: one record more moves every other one's share."
    )
    visibility = "loss.mean() in front of per-record gradients that are not multiplied by the batch size again"
    refuted_by = "sum.additive"

    def record_gradients(self, params: Tensors, inputs: Tensor, labels: Tensor) -> Tensors:
        """Return each record's gradient of the mean loss, name to `(n, ...)`."""
        gradients = super().record_gradients(params, inputs, labels)
        return {name: value / max(1, len(labels)) for name, value in gradients.items()}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / 2


PLUGIN = ClipGradientsOfMean
