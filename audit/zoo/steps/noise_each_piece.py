"""Noise is added once per accumulation piece of four records."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors

SIZE = 4
"""Records in an accumulation piece."""


class NoiseEachPiece(DpSgdStep):
    """Noise is added once per accumulation piece of four records."""

    wrong = (
        "The noise of a batch grows with its number of pieces, and the accounting knows one: more noise than claimed, "
        "utility lost, the batch size released."
    )
    visibility = "gradient accumulation around a private optimiser"
    refuted_by = "noise.variance"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        pieces = max(1, -(-count // SIZE))
        return super().noise(params, count, noise_multiplier * pieces**0.5, clip_norm, generator)


PLUGIN = NoiseEachPiece
