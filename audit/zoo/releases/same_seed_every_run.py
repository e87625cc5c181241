"""Every run starts its generator from one seed, so its noise is known to whoever reads the code."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.core.data import Array
from audit.zoo._releases import INFINITE, ZooRelease


class SameSeedEveryRun(ZooRelease):
    """Every run starts its generator from one seed, so its noise is known to whoever reads the code."""

    wrong = "Starts the generator from one seed in every run: the noise is a constant."
    visibility = 'set_seed(42) "for reproducibility" at the head of a training script'
    outputs = 4_000

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return the sum with the noise that every run draws."""
        noise = np.random.default_rng(42).laplace(0.0, 1 / self.epsilon)
        return np.full(size, float(np.sum(data)) + noise)

    def exact(self) -> tuple[float, float]:
        """Return infinity: the output tells the sum."""
        return INFINITE


PLUGIN = SameSeedEveryRun
