"""A correct twin: four parties add a quarter of the variance each."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors

SHARES = 4
"""Parties that add noise."""


class NoiseInShares(DpSgdStep):
    """A correct twin: four parties add a quarter of the variance each."""

    wrong = ""
    visibility = "noise of several devices under secure aggregation"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        parts = [super(NoiseInShares, self).noise(params, count, noise_multiplier, clip_norm, generator) for _ in range(SHARES)]
        return {name: torch.stack([part[name] for part in parts]).sum(0) / SHARES**0.5 for name in params}


PLUGIN = NoiseInShares
