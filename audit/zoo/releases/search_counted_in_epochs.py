"""A search of T trials that is entered as T / (n b) releases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.zoo._gaussian_sum import analytic_deviation
from audit.zoo._releases import GaussianRelease

TRIALS, RECORDS, BATCH = 40, 10, 2


class SearchCountedInEpochs(GaussianRelease):
    """A search of T trials that is entered as T / (n b) releases."""

    wrong = "Counts a search of T = 40 trials as T / (n b) = 2 releases, as if trials ran on batches of the data."
    visibility = "a formula for epochs reused for trials: steps = trials / (records * batch size)"
    distance = math.sqrt(TRIALS)  # all trials are one Gaussian release of root T times the sensitivity

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return the noisy sum of every trial, `(size, trials)`."""
        return float(np.sum(data)) + rng.normal(0.0, self.deviation(), (size, TRIALS))

    def deviation(self) -> float:
        """Return the standard deviation of the noise of each trial."""
        counted = TRIALS / (RECORDS * BATCH)
        return analytic_deviation(self.epsilon, self.delta, math.sqrt(counted))


PLUGIN = SearchCountedInEpochs
