"""The choice of the candidate with the highest utility, in private ways; utilities move by at most 1.

References:
    McSherry, Talwar 2007 (exponential mechanism). McKenna, Sheldon 2020, arXiv 2010.12603 (permute and flip).
    Dwork, Roth 2014, section 3.3 (report noisy max).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.data import Array


@dataclass(frozen=True, slots=True)
class ExponentialChoice:
    """Candidate i with probability in proportion to `exp(rate * utility_i)`: epsilon-DP with rate epsilon / 2."""

    rate: float

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        return np.asarray(rng.choice(len(data), size=size, p=self.probabilities(data)))

    def probabilities(self, utilities: Any) -> Array:
        """Return the exact chance of each candidate."""
        weights = np.exp(self.rate * (np.asarray(utilities, np.float64) - np.max(utilities)))
        return np.asarray(weights / weights.sum())

    def epsilon(self, data: Any, neighbour: Any) -> float:
        """The exact epsilon of one pair of utilities."""
        return float(np.abs(np.log(self.probabilities(data)) - np.log(self.probabilities(neighbour))).max())


@dataclass(frozen=True, slots=True)
class PermuteAndFlip:
    """In random order, candidate i is taken with probability `exp(rate * (utility_i - highest))`; epsilon-DP with epsilon / 2.

    Attributes:
        permutes: False leaves the order as it is, which is wrong.
    """

    rate: float
    permutes: bool = True

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        utilities = np.asarray(data, np.float64)
        places = np.tile(np.arange(len(utilities)), (size, 1))
        if self.permutes:
            places = rng.permuted(places, axis=1)
        heads = rng.random(places.shape) < np.exp(self.rate * (utilities - utilities.max()))[places]
        return np.asarray(places[np.arange(size), heads.argmax(axis=1)])  # the highest utility is always taken


@dataclass(frozen=True, slots=True)
class ReportNoisyMax:
    """The candidate with the highest utility plus Laplace noise: epsilon-DP with scale 2 / epsilon.

    Attributes:
        with_value: also returns the noisy utility, which is wrong: the value needs its own budget.
    """

    scale: float
    with_value: bool = False

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        noisy = np.asarray(data, np.float64) + rng.laplace(0.0, self.scale, (size, len(data)))
        if self.with_value:
            return np.stack([noisy.argmax(axis=1), noisy.max(axis=1)], axis=1)
        return np.asarray(noisy.argmax(axis=1))
