"""Biases are left out of the norm."""

from __future__ import annotations

from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors


class ClipBiasNotCounted(DpSgdStep):
    """Biases are left out of the norm."""

    wrong = "Computes the norm over the weights alone; gradients of biases enter unclipped."
    visibility = 'filters such as "no decay for biases" reused for clipping'
    refuted_by = "clip.add"

    def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
        """Return what each record's gradient is multiplied by."""
        weights = {name: gradient for name, gradient in gradients.items() if not name.endswith("bias")}
        return super().factors(weights, clip_norm)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = ClipBiasNotCounted
