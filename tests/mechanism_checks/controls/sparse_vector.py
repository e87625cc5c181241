"""The sparse vector technique and its wrong variants, each with the exact probability of every answer.

References:
    Lyu, Su, Li 2017, arXiv 1603.01699, algorithms 1 and 4 to 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.data import Array

REACH, PANELS = 60.0, 960  # of the threshold noise: scales to either side, and pieces of the quadrature
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


@dataclass(frozen=True, slots=True)
class SparseVectorTechnique:
    """For each query in turn, whether answer plus noise reaches 0 plus the noise of the threshold.

    Attributes:
        threshold_scale: of the Laplace noise of the threshold, drawn once.
        query_scale: of the Laplace noise of each query; 0 for none, which is wrong.
        positives: after so many "above" nothing is answered; None never stops, which is wrong.
    """

    threshold_scale: float
    query_scale: float
    positives: int | None = 1

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        answers = np.asarray(data, np.float64)
        threshold = rng.laplace(0.0, self.threshold_scale, (size, 1))
        noise = rng.laplace(0.0, self.query_scale, (size, len(answers))) if self.query_scale else 0.0
        above = (answers + noise >= threshold).astype(np.float64)
        if self.positives is not None:
            before = np.cumsum(above, axis=1) - above
            above[before >= self.positives] = -1.0  # not answered any more
        return above

    def log_probability(self, answers: Any, pattern: Any) -> float:
        """Logarithm of the exact chance of a pattern of 0 (below) and 1 (above), by quadrature over the threshold's noise."""
        queries, signs = np.asarray(answers, np.float64), np.asarray(pattern, np.float64)
        scale = self.threshold_scale
        edges = np.unique(np.concatenate([np.linspace(-REACH * scale, REACH * scale, PANELS + 1), queries, [0.0]]))
        half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
        threshold = (middle[:, None] + half[:, None] * NODES).ravel()
        log_mass = np.log((half[:, None] * WEIGHTS).ravel()) - np.abs(threshold) / scale - math.log(2 * scale)
        for query, sign in zip(queries, signs, strict=True):
            log_mass = log_mass + self._log_side(threshold - query, sign > 0)
        largest = log_mass.max()
        return float(largest + np.log(np.exp(log_mass - largest).sum())) if np.isfinite(largest) else -math.inf

    def epsilon(self, answers: Any, neighbour: Any, pattern: Any) -> float:
        """The exact log ratio of the chances of a pattern on two vectors of answers."""
        first, second = (self.log_probability(queries, pattern) for queries in (answers, neighbour))
        return math.inf if math.isinf(second) and math.isfinite(first) else abs(first - second)

    def _log_side(self, margin: Array, above: bool) -> Array:
        """Logarithm of the chance that a query's noise reaches `margin`, or does not."""
        x = -margin if above else margin
        if self.query_scale == 0:
            return np.where(x >= 0, 0.0, -math.inf)
        low, high = np.minimum(x, 0.0) / self.query_scale, np.maximum(x, 0.0) / self.query_scale
        return np.where(x < 0, low - math.log(2), np.log1p(-0.5 * np.exp(-high)))


def step_pair(below: int, above: int = 1) -> tuple[Array, Array, Array]:
    """Answers, their neighbour and a pattern that shows much: `below` queries that rise, then `above` that fall."""
    answers = np.concatenate([np.zeros(below), np.ones(above)])
    return answers, 1 - answers, answers
