"""Private answers about records: randomised response, quantile, mean with an unknown number of records, histogram.

References:
    Warner 1965. Smith 2011 (quantiles by the exponential mechanism). Dwork, Roth 2014. Korolova, Kenthapadi, Mishra,
    Ntoulas 2009 (histograms with thresholding).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.data import Array


@dataclass(frozen=True, slots=True)
class Response:
    """A record's own category with probability `truth`, else another one, each alike.

    Attributes:
        truth: `e^epsilon / (e^epsilon + categories - 1)` for epsilon-DP.
    """

    truth: float
    categories: int = 2

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        own = int(np.asarray(data).ravel()[0])
        shift = rng.integers(1, self.categories, size) * (rng.random(size) >= self.truth)
        return np.asarray((own + shift) % self.categories)

    def epsilon(self) -> float:
        """The exact epsilon."""
        return math.log(self.truth * (self.categories - 1) / (1 - self.truth))


def response_truth(epsilon: float, categories: int = 2) -> float:
    """The chance of a true answer that makes randomised response epsilon-DP."""
    return math.exp(epsilon) / (math.exp(epsilon) + categories - 1)


@dataclass(frozen=True, slots=True)
class PrivateQuantile:
    """A quantile of records in `[low, high]`, by the exponential mechanism on rank errors: epsilon-DP with rate epsilon / 2.

    Under add/remove one record moves the rank error of every value by at most 1 (and its share, `level`, by less).
    """

    rate: float
    level: float = 0.5
    low: float = 0.0
    high: float = 1.0

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        edges = np.concatenate([[self.low], np.sort(np.clip(data, self.low, self.high)), [self.high]])
        below, count = np.arange(len(edges) - 1), len(edges) - 2
        widths = np.diff(edges)
        weights = widths * np.exp(-self.rate * np.abs(below - self.level * count))
        piece = rng.choice(len(weights), size=size, p=weights / weights.sum())
        return np.asarray(edges[piece] + widths[piece] * rng.random(size))


@dataclass(frozen=True, slots=True)
class PrivateMean:
    """Mean of a private number of records in `[0, 1]`, under add/remove: half of epsilon for the sum, half for the number.

    Attributes:
        private_count: False divides by the true number and adds noise for a public one, which is wrong.
    """

    claim: float
    private_count: bool = True

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        records = np.clip(data, 0.0, 1.0)
        if not self.private_count:
            number = max(len(records), 1)
            return np.asarray(records.sum() / number + rng.laplace(0.0, 1 / (number * self.claim), size))
        total = records.sum() + rng.laplace(0.0, 2 / self.claim, size)
        return np.asarray(total / np.maximum(len(records) + rng.laplace(0.0, 2 / self.claim, size), 1.0))


@dataclass(frozen=True, slots=True)
class ThresholdedHistogram:
    """Counts of the categories that occur, with Laplace noise, if the noisy count passes a threshold.

    Absent categories are never released, so a single record's own category is released with probability delta.

    Attributes:
        scale: of the noise: 1 / epsilon.
        threshold: `1 + scale * log(1 / (2 delta))` for (epsilon, delta)-DP under add/remove.
        noisy: False compares the true count and adds the noise afterwards, which is wrong.
    """

    scale: float
    threshold: float
    noisy: bool = True

    def __call__(self, data: Any, rng: np.random.Generator) -> dict[str, float]:
        names, counts = np.unique(np.asarray(data), return_counts=True)
        noise = rng.laplace(0.0, self.scale, len(counts))
        values = counts + noise
        keep = (values if self.noisy else counts) >= self.threshold
        return {str(name): float(value) for name, value in zip(names[keep], values[keep], strict=True)}

    def delta(self) -> float:
        """The chance that the category of a single record is released."""
        if not self.noisy:
            return 1.0 if self.threshold <= 1 else 0.0
        excess = (self.threshold - 1) / self.scale
        return 0.5 * math.exp(-excess) if excess >= 0 else 1 - 0.5 * math.exp(excess)


def histogram_threshold(epsilon: float, delta: float) -> float:
    """The threshold that makes the histogram (epsilon, delta)-DP under add/remove."""
    return 1 + math.log(1 / (2 * delta)) / epsilon
