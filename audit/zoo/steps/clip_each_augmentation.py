"""Two augmented copies of each record are clipped separately."""

from __future__ import annotations

from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors


class ClipEachAugmentation(DpSgdStep):
    """Two augmented copies of each record are clipped separately."""

    wrong = "Each augmented copy counts as a separate record: one record contributes up to 2 C."
    visibility = "augmentation multiplicity without averaging before the clip"
    refuted_by = "clip.add"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum that is released."""
        plain = super().total(params, inputs, labels, clip_norm)
        mirror_total = super().total(params, inputs.flip(-1), labels, clip_norm)
        return {name: plain[name] + mirror_total[name] for name in plain}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / 2


PLUGIN = ClipEachAugmentation
