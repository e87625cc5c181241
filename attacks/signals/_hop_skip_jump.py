"""Distance to the decision boundary from predicted labels alone: the label-only signal that needs queries.

Members tend to be further from the boundary than non-members. The distance of each record is itself a
score (higher: more likely a member); it needs the model, not arrays, so it is a signal and not a scorer.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.core.errors import ConfigError, ObservationError
from audit.core.seeds import Seed

Predict = Callable[[Array], Array]  # inputs `(n, ...)` to predicted classes `(n,)`

_BISECTIONS = 12  # the distance along the line is exact to 1/4096 of it
_HALVINGS = 6  # of a step that leads back over the boundary, which is left out after so many
_CANDIDATES = 64  # starting points compared; their labels are known already, so they cost memory and no query
_PROBE_VALUES = 1 << 24  # numbers in the probes held at once (128 MiB)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distances:
    """What was found: `values` `(m,)` l2 distances, 0 if the label is predicted wrong; `queries` spent per record."""

    values: Array
    queries: int


def least_budget() -> int:
    """Queries per record that one round takes: the start, a first bisection, and the probes, steps and bisection of a round.

    >>> least_budget()
    55
    """
    return 1 + _BISECTIONS + _round_cost(1)


def boundary_distances(predict: Predict, inputs: Array, labels: Array, *, budget: int, seed: Seed) -> Distances:
    """Upper bounds, tightened by HopSkipJump, on each record's distance to a point of another predicted class.

    All records advance together, so a call of `predict` sees many inputs at once.

    Args:
        inputs: `(m, ...)`.

    Raises:
        ConfigError: if the budget does not reach one round.
        ObservationError: if no input is predicted as another class, so no record has a starting point.

    References:
        Chen, Jordan and Wainwright 2020, arXiv 1904.02144 (HopSkipJump); Choquette-Choo et al. 2021, arXiv
        2007.14321 (distance as membership signal).
    """
    search = _Search(predict, inputs, labels, seed.child("boundary").numpy())
    if budget < least_budget():
        raise ConfigError(f"a budget of {budget} queries a record; one round of the boundary attack takes {least_budget()}")
    search.start()
    rounds = 1
    while search.queries + _round_cost(rounds) <= budget:
        search.improve(rounds)
        rounds += 1
    return Distances(values=search.distances(), queries=search.queries)


class _Search:
    """The best adversarial point of each record so far; `queries` counts calls per record."""

    def __init__(self, predict: Predict, inputs: Array, labels: Array, random: np.random.Generator) -> None:
        self.predict, self.shape, self.random = predict, inputs.shape[1:], random
        self.flat = np.asarray(inputs, dtype=np.float64).reshape(len(inputs), -1)
        self.dtype, self.labels, self.queries = inputs.dtype, np.asarray(labels), 0
        self.best = self.flat.copy()  # always on the other side of the boundary once started
        self.candidate = self.best
        self.active = np.zeros(len(inputs), dtype=bool)

    def start(self) -> None:
        """Moves each rightly predicted record to the boundary with the nearest of some inputs of another prediction."""
        predictions = self._classes(self.flat[:, None])[:, 0]
        self.queries += 1
        self.active = predictions == self.labels
        for label in np.unique(self.labels[self.active]):
            other_class = np.flatnonzero(predictions != label)
            if len(other_class) == 0:
                raise ObservationError(f"every input is predicted as class {label}; give inputs of more than one class")
            rows = np.flatnonzero(self.active & (self.labels == label))
            candidates = self.flat[self.random.choice(other_class, min(_CANDIDATES, len(other_class)), replace=False)]
            gaps = ((self.flat[rows, None] - candidates[None]) ** 2).sum(axis=2)
            self.best[rows] = candidates[gaps.argmin(axis=1)]
        self.candidate = self.best.copy()
        self._bisect()

    def improve(self, number: int) -> None:
        """One round: estimate the boundary's normal at the best point, step along it, return to the boundary."""
        distance = self.distances()
        normal = np.empty_like(self.best)
        rows = max(1, _PROBE_VALUES // (_probes(number) * self.flat.shape[1]))
        for start in range(0, len(self.flat), rows):
            block = slice(start, start + rows)
            normal[block] = self._normal(block, _probes(number), distance[block])
        self.queries += _probes(number)
        self._step(normal, distance / np.sqrt(number))  # the paper's step length
        self._bisect()

    def _normal(self, block: slice, count: int, distance: Array) -> Array:
        """Unit normal of the boundary at some best points, `(b, features)`, from `count` labels each."""
        features = self.flat.shape[1]
        probes = self.random.standard_normal((len(distance), count, features))
        probes /= np.linalg.norm(probes, axis=2, keepdims=True)
        size = (distance / np.sqrt(features))[:, None, None]
        # the mean vote as a baseline lowers the variance of the estimate; of unanimous votes it would leave nothing
        votes = 2.0 * self._adversarial(self.best[block, None] + size * probes, block) - 1.0
        mean = votes.mean(axis=1, keepdims=True)
        normal = np.einsum("mc,mcf->mf", np.where(np.abs(mean) < 1, votes - mean, votes), probes)
        return np.asarray(normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300))

    def distances(self) -> Array:
        """l2 distance of each record to its best point, 0 for wrongly predicted ones."""
        return np.asarray(np.linalg.norm(self.best - self.flat, axis=1))

    def _step(self, direction: Array, length: Array) -> None:
        """Moves each best point by the longest of some halved lengths that keeps it on the other side."""
        candidate, pending = self.best.copy(), self.active.copy()
        for _ in range(_HALVINGS):
            trial = self.best + length[:, None] * direction
            good = self._query(trial) & pending
            candidate[good] = trial[good]
            pending &= ~good
            length = np.where(pending, length / 2, length)
        self.candidate = candidate

    def _bisect(self) -> None:
        """Brings the candidate back to the boundary on the line to its record; kept only if it is nearer."""
        far = self.candidate
        low, high = np.zeros(len(self.flat)), np.ones(len(self.flat))
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            outside = self._query(self.flat + middle[:, None] * (far - self.flat))
            high, low = np.where(outside, middle, high), np.where(outside, low, middle)
        points = self.flat + high[:, None] * (far - self.flat)
        nearer = np.linalg.norm(points - self.flat, axis=1) < self.distances()
        self.best[self.active & nearer] = points[self.active & nearer]

    def _query(self, points: Array) -> Array:
        """One query per record: True if its point `(m, features)` is predicted as another class, `(m,)`."""
        self.queries += 1
        return np.asarray(self._adversarial(points[:, None], slice(None))[:, 0])

    def _adversarial(self, points: Array, block: slice) -> Array:
        """True if a point `(b, c, features)` is predicted as another class than its record's, `(b, c)`."""
        return np.asarray(self._classes(points) != self.labels[block, None], dtype=bool)

    def _classes(self, points: Array) -> Array:
        """Predicted classes of `(b, c, features)`, `(b, c)`; wrongly predicted records are asked, too."""
        queries = points.reshape(-1, *self.shape).astype(self.dtype)
        return np.asarray(self.predict(queries)).reshape(points.shape[:2])


def _probes(number: int) -> int:
    """Queries per record for the normal of round `number`."""
    # grows as in the paper; 24 in place of 100, so that budgets of hundreds reach several rounds
    return round(24 * float(np.sqrt(number)))


def _round_cost(number: int) -> int:
    """Queries per record that round `number` takes at most."""
    return _probes(number) + _HALVINGS + _BISECTIONS
