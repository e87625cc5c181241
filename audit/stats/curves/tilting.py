"""Exponential tilts of a composed privacy loss: where a tilt puts its mass, and which one shows the tail at delta."""

import math
from collections.abc import Sequence

import numpy as np

from audit.stats.arrays import Array
from audit.stats.curves.discretise import LossGrid


def log_sum_exp(logs: Array) -> Array:
    """Logarithms of the sums of exponentials over the last axis, of which each has a largest element; overwrites `logs`.

    The largest elements stay out of the sum, so that a sum of little more than one of them keeps its digits.
    """
    largest = logs.max(axis=-1, keepdims=True)
    is_largest = logs == largest
    logs -= largest
    np.exp(logs, out=logs)
    logs[is_largest] = 0.0
    times = np.count_nonzero(is_largest, axis=-1).astype(np.float64)
    return np.asarray(np.log1p(logs.sum(axis=-1) / times) + np.log(times) + largest[..., 0])


Part = tuple[LossGrid, int]
_LEAST_SPREAD = 1e-3  # of a step: a loss that is all but certain still gets a window
_TILTS = np.exp(np.linspace(math.log(1e-4), math.log(1e7), 90))


def cumulants(parts: Sequence[Part], tilts: Array) -> Array:
    """Logarithm of the moment generating function of the composed finite loss at each tilt."""
    total = np.zeros(len(tilts))
    for grid, count in parts:
        total += count * log_sum_exp(np.log(grid.mass) + tilts[:, None] * grid.loss)
    return total


def tilt_for_delta(parts: Sequence[Part], delta: float) -> tuple[float, float]:
    """The tilt that gives the best Chernoff bound on epsilon at `delta`, and that bound.

    A loss above epsilon contributes `1 - exp(epsilon - loss)`, at most
    `exp(t (loss - epsilon)) t^t / (1 + t)^(1 + t)` for every tilt t.
    """

    def bounds(tilts: Array) -> Array:
        concession = tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)
        with np.errstate(over="ignore"):
            return (cumulants(parts, tilts) + concession - math.log(delta)) / tilts

    tilts = _TILTS
    for _ in range(3):
        epsilons = bounds(tilts)
        best = int(np.argmin(np.where(np.isnan(epsilons), np.inf, epsilons)))
        low, high = tilts[max(best - 1, 0)], tilts[min(best + 1, len(tilts) - 1)]
        tilts = np.exp(np.linspace(math.log(low), math.log(high), 20))
    return float(tilts[len(tilts) // 2]), float(epsilons[best])


def log_moment_at(grid: LossGrid, tilt: float) -> float:
    return float(log_sum_exp(np.log(grid.mass) + tilt * grid.loss))


def moments(parts: Sequence[Part], tilt: float) -> tuple[float, float, float]:
    """Cumulant generating function at `tilt`, and mean and standard deviation of the tilted composed loss."""
    scale = mean = variance = 0.0
    for grid, count in parts:
        log_moment = log_moment_at(grid, tilt)
        weight = np.exp(np.log(grid.mass) + tilt * grid.loss - log_moment)
        centre = float(weight @ grid.loss)
        scale += count * log_moment
        mean += count * centre
        variance += count * float(weight @ (grid.loss - centre) ** 2)
    return scale, mean, math.sqrt(variance)


def window(parts: Sequence[Part], tilt: float, log_aliased: float) -> tuple[float, float]:
    """An interval outside of which the tilted composed loss has at most `exp(log_aliased)` on either side (Chernoff)."""
    scale, _, spread = moments(parts, tilt)
    highest = sum(count * float(grid.loss[-1]) for grid, count in parts)
    lowest = sum(count * float(grid.loss[0]) for grid, count in parts)
    rates = np.exp(np.linspace(math.log(0.05), math.log(50.0), 40)) / max(spread, _LEAST_SPREAD * parts[0][0].step)
    with np.errstate(over="ignore", invalid="ignore"):
        right = (cumulants(parts, tilt + rates) - scale - log_aliased) / rates
        first = -(cumulants(parts, tilt - rates) - scale - log_aliased) / rates
    return max(float(np.nanmax(first)), lowest), min(float(np.nanmin(right)), highest)


def infinite_mass(parts: Sequence[Part]) -> float:
    """P-mass of an infinite composed loss."""
    if any(grid.infinite >= 1 and count for grid, count in parts):
        return 1.0
    return -math.expm1(sum(count * math.log1p(-grid.infinite) for grid, count in parts))
