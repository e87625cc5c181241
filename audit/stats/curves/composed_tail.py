"""The upper tail of a composed privacy loss, read around one tilt: delta at an epsilon, epsilon at a delta."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FARTHEST = 600.0  # of an exponent: further from the tilted mean nothing is resolved
_BLOCK, _SHORTEST_BLOCK = 300.0, 32  # loss within which sums are taken at once; entries


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComposedTail:
    """The upper tail of a composed loss around the saddle point of one tilt.

    Attributes:
        above: `(n + 1,)` sum of the scaled P-masses from each entry on; times `exp(log_scale)` for probabilities.
        faded_sums: `(n + 1,)` the same with each mass times `exp(-distance)`, its distance in loss from the entry.
        log_scale: logarithm of what the scaled masses have to be multiplied by.
        error: scaled bound on what aliasing and rounding can add to or take from a delta at the tilted mean;
            elsewhere it is times `exp(tilt * (mean - epsilon))`.
    """

    first: float
    step: float
    above: Array
    faded_sums: Array
    log_scale: float
    infinite: float
    error: float
    tilt: float
    mean: float

    @property
    def last(self) -> float:
        return float(self.first + self.step * (len(self.above) - 2))

    def delta(self, epsilon: float, side: int) -> float:
        """Delta at `epsilon` with the error bound added (`side` 1) or taken off (`side` -1)."""
        if self.tilt * (self.mean - epsilon) >= FARTHEST:
            return 1.0 if side > 0 else self.infinite
        entry = min(max(math.floor((epsilon - self.first) / self.step) + 1, 0), len(self.above) - 1)
        below = self.first + entry * self.step - epsilon  # at least 0, but for the first entry and rounding
        excess = self.above[entry] - math.exp(min(-below, 0.0)) * self.faded_sums[entry]
        upper_delta = max(excess, 0.0) + side * float(self._errors(np.array([epsilon]))[0])
        if upper_delta > 0 and math.log(upper_delta) + self.log_scale > 0:
            return 1.0
        return float(min(1.0, max(0.0, self.infinite + upper_delta * math.exp(self.log_scale))))

    def epsilon(self, delta: float, side: int) -> float | None:
        """Least epsilon with at most `delta`, None if it is left of what this window resolves."""
        if delta <= self.infinite:
            return math.inf
        log_target = math.log(delta - self.infinite) - self.log_scale
        losses = np.asarray(self.first + self.step * np.arange(len(self.above) - 1), dtype=np.float64)
        target = (math.exp(log_target) if log_target < FARTHEST else math.inf) - side * self._errors(losses)
        deltas = self.above[:-1] - self.faded_sums[:-1]
        if side > 0:  # the first loss that is certain to be enough
            sufficient = np.flatnonzero(deltas <= target)
            if len(sufficient) == 0:
                return math.inf
            entry = int(sufficient[0])
        else:  # behind the last loss that is certain not to be
            short = np.flatnonzero(deltas > target)
            entry = int(short[-1]) + 1 if len(short) else 0
            if entry == len(losses):
                return self.last
        # further to the left, aliasing weighed by the tilt exceeds every float
        if entry == 0 or self.tilt * (self.mean - losses[entry - 1]) >= FARTHEST:
            return None
        # inside a cell delta is `above - exp(epsilon - loss) * faded_sums`, which is solved for epsilon
        excess = self.above[entry] - target[entry]
        if excess <= 0 or self.faded_sums[entry] <= 0:
            return float(losses[entry])
        return float(
            min(max(losses[entry] + math.log(excess) - math.log(self.faded_sums[entry]), losses[entry - 1]), losses[entry])
        )

    def _errors(self, epsilons: Array) -> Array:
        return np.asarray(self.error * np.exp(np.minimum(self.tilt * (self.mean - epsilons), FARTHEST)))


def sums_from(masses: Array) -> Array:
    """`(n + 1,)` sum of the masses from each place on."""
    sums = np.zeros(len(masses) + 1)
    np.cumsum(masses[::-1], out=sums[-2::-1])
    return sums


def faded_sums_from(masses: Array, step: float) -> Array:
    """`(n + 1,)` sum of the masses from each place on, each times `exp(-step)` to the power of its distance.

    By blocks short enough that no factor overflows; if a block would hold few entries, by the recursion itself.
    """
    sums = np.zeros(len(masses) + 1)
    length = int(_BLOCK / step)
    if length < _SHORTEST_BLOCK:
        from scipy import signal  # here, because it alone doubles the time to import the public functions

        sums[-2::-1] = signal.lfilter([1.0], [1.0, -math.exp(-step)], masses[::-1])
        return sums
    for end in range(len(masses), 0, -length):
        start = max(end - length, 0)
        away = step * np.arange(end - start)
        inside = sums_from(masses[start:end] * np.exp(-away))[:-1]
        sums[start:end] = (inside + sums[end] * math.exp(-step * (end - start))) * np.exp(away)
    return sums
