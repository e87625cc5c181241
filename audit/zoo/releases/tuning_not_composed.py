"""The best of five runs is released, and one run is accounted for."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.core.data import Array
from audit.zoo._releases import ZooRelease, selection_epsilon

RUNS = 5


class TuningNotComposed(ZooRelease):
    """The best of five runs is released, and one run is accounted for."""

    wrong = "Chooses hyper-parameters by the score of five runs on the private data, and accounts for the run that won."
    visibility = "sweeps around a private training; Papernot and Steinke 2022, arXiv 2110.03620"

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return the best of the noisy scores."""
        scores = float(np.sum(data)) + rng.laplace(0.0, 1 / self.epsilon, (size, RUNS))
        return np.asarray(scores.max(axis=1))

    def exact(self) -> tuple[float, float]:
        """Return the epsilon of all runs together, which the largest score alone costs too, twice."""
        epsilon = selection_epsilon(RUNS, 1 / self.epsilon)
        return epsilon, epsilon


PLUGIN = TuningNotComposed
