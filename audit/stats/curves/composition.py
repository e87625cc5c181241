"""Epsilon and delta of a composition from below and from above, accurate relative to delta even at 1e-15.

A composed privacy loss is a sum of independent losses. Its distribution is found by an FFT after exponential tilting
(each mass times `exp(tilt * loss)`, normalised), with the tilt at the saddle point of the wanted tail: what is small
before tilting is of order one after it, so that rounding is relative to delta and not to 1.

References:
    Koskela, Jalko, Honkela 2020, arXiv 1906.03049. Gopi, Lee, Wutschitz 2021, arXiv 2106.02848.
    Zhu, Dong, Wang 2022, arXiv 2106.08567 (dominating pairs compose).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import logsumexp

from audit.stats.curves.discretise import LossGrid

Array = NDArray[np.float64]
Part = tuple[LossGrid, int]
_LOG_NEGLIGIBLE = math.log(1e-8)  # part of delta that aliasing and rounding may each add or take
_LARGEST_WINDOW = 1 << 23
_LOG_VANISHED = math.log(1e-40)  # of a characteristic function of modulus at most 1, far below its rounding
_FARTHEST = 600.0  # of an exponent: further from the tilted mean nothing is resolved
_STEEPEST = 4.0  # largest tilt, over a step: beyond it the tilted mass is that of one grid point
_LEAST_SPREAD = 1e-3  # of a step: a loss that is all but certain still gets a window
_BLOCK, _SHORTEST_BLOCK = 300.0, 32  # loss within which sums are taken at once; entries
_TILTS = np.exp(np.linspace(math.log(1e-4), math.log(1e7), 90))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComposedTail:
    """The upper tail of a composed loss around the saddle point of one tilt.

    Attributes:
        first: loss of the first entry.
        step: width of the grid.
        above: `(n + 1,)` sum of the scaled P-masses from each entry on; times `exp(log_scale)` for probabilities.
        tempered: `(n + 1,)` the same with each mass times `exp(-distance)`, its distance in loss from the entry.
        infinite: P-mass of an infinite loss.
        error: scaled bound on what aliasing and rounding can add to or take from a delta at the tilted mean;
            elsewhere it is times `exp(tilt * (mean - epsilon))`.
    """

    first: float
    step: float
    above: Array
    tempered: Array
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
        if self.tilt * (self.mean - epsilon) >= _FARTHEST:
            return 1.0 if side > 0 else self.infinite
        entry = min(max(math.floor((epsilon - self.first) / self.step) + 1, 0), len(self.above) - 1)
        below = self.first + entry * self.step - epsilon  # at least 0, but for the first entry and rounding
        found = self.above[entry] - math.exp(min(-below, 0.0)) * self.tempered[entry]
        scaled = max(found, 0.0) + side * float(self._errors(np.array([epsilon]))[0])
        if scaled > 0 and math.log(scaled) + self.log_scale > 0:
            return 1.0
        return float(min(1.0, max(0.0, self.infinite + scaled * math.exp(self.log_scale))))

    def epsilon(self, delta: float, side: int) -> float | None:
        """Least epsilon with at most `delta`, None where it lies left of what this window resolves."""
        if delta <= self.infinite:
            return math.inf
        log_target = math.log(delta - self.infinite) - self.log_scale
        losses = np.asarray(self.first + self.step * np.arange(len(self.above) - 1), dtype=np.float64)
        target = (math.exp(log_target) if log_target < _FARTHEST else math.inf) - side * self._errors(losses)
        deltas = self.above[:-1] - self.tempered[:-1]
        if side > 0:  # the first loss that is certain to be enough
            enough = np.flatnonzero(deltas <= target)
            if len(enough) == 0:
                return math.inf
            entry = int(enough[0])
        else:  # behind the last loss that is certain not to be
            short = np.flatnonzero(deltas > target)
            entry = int(short[-1]) + 1 if len(short) else 0
            if entry == len(losses):
                return self.last
        if entry == 0 or self.tilt * (self.mean - losses[entry - 1]) >= _FARTHEST:
            return None
        excess = self.above[entry] - target[entry]
        if excess <= 0 or self.tempered[entry] <= 0:
            return float(losses[entry])
        return float(
            min(max(losses[entry] + math.log(excess) - math.log(self.tempered[entry]), losses[entry - 1]), losses[entry])
        )

    def _errors(self, epsilons: Array) -> Array:
        return np.asarray(self.error * np.exp(np.minimum(self.tilt * (self.mean - epsilons), _FARTHEST)))


def cumulants(parts: Sequence[Part], tilts: Array) -> Array:
    """Logarithm of the moment generating function of the composed finite loss at each tilt."""
    total = np.zeros(len(tilts))
    for grid, count in parts:
        total += count * logsumexp(np.log(grid.mass) + tilts[:, None] * grid.loss, axis=1)
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
        found = bounds(tilts)
        best = int(np.argmin(np.where(np.isnan(found), np.inf, found)))
        low, high = tilts[max(best - 1, 0)], tilts[min(best + 1, len(tilts) - 1)]
        tilts = np.exp(np.linspace(math.log(low), math.log(high), 20))
    return float(tilts[len(tilts) // 2]), float(found[best])


def compose(parts: Sequence[Part], tilt: float, log_aliased: float) -> ComposedTail:
    """The composed loss around its tilted mean, up to tilted mass `exp(log_aliased)` on either side.

    Raises:
        MemoryError: the window would need more than 2^23 entries; use a wider grid.
    """
    step = parts[0][0].step
    scale, mean, spread = _moments(parts, tilt)
    first, tilted = composed_masses(parts, tilt, window(parts, tilt, log_aliased))
    size = len(tilted)
    # entry j stands for the mass times exp(tilt * (mean - loss_j)), up to a common scale
    away = step * np.arange(size)
    with np.errstate(over="ignore", under="ignore"):
        masses = tilted * np.exp(np.minimum(-tilt * (away + (first - mean)), _FARTHEST))
        above, tempered = _sums_from(masses), _faded_sums_from(masses, step)
    return ComposedTail(
        first=first,
        step=step,
        above=above,
        tempered=tempered,
        log_scale=scale - tilt * mean,
        infinite=infinite_mass(parts),
        error=2 * math.exp(log_aliased) + _rounding(parts, size, tilt * spread),
        tilt=tilt,
        mean=mean,
    )


def _sums_from(masses: Array) -> Array:
    """`(n + 1,)` sum of the masses from each place on."""
    sums = np.zeros(len(masses) + 1)
    np.cumsum(masses[::-1], out=sums[-2::-1])
    return sums


def _faded_sums_from(masses: Array, step: float) -> Array:
    """`(n + 1,)` sum of the masses from each place on, each times `exp(-step)` to the power of its distance.

    By blocks short enough that no factor overflows; where a block would hold few entries, by the recursion itself.
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
        inside = _sums_from(masses[start:end] * np.exp(-away))[:-1]
        sums[start:end] = (inside + sums[end] * math.exp(-step * (end - start))) * np.exp(away)
    return sums


def composed_masses(parts: Sequence[Part], tilt: float, limits: tuple[float, float]) -> tuple[float, Array]:
    """The first loss and the masses of the tilted, normalised composed loss; what lies outside the limits is aliased.

    Raises:
        MemoryError: the window would need more than 2^23 entries; use a wider grid.
    """
    step, (left, right) = parts[0][0].step, limits
    size = fft.next_fast_len(max(math.ceil((right - left) / step) + 4, 16), real=True)
    if size > _LARGEST_WINDOW:
        raise MemoryError(f"a window of {size} entries of width {step:g}; choose a wider grid")
    shift = sum(count * grid.shift for grid, count in parts)
    start = math.floor(left / step - shift) - 2
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for grid, count in parts:
        weight = np.exp(np.log(grid.mass) + tilt * grid.loss - _log_moment(grid, tilt))
        folded = np.bincount(np.mod(grid.index, size), weight, size)
        spectrum *= _power(fft.rfft(folded), count)
    tilted = np.maximum(np.roll(fft.irfft(spectrum, size), -(start % size)), 0.0)
    return (start + shift) * step, tilted


def _power(spectrum: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """`spectrum ** count` by repeated squaring; what falls below 1e-40 is zero."""
    squared = spectrum.real**2 + spectrum.imag**2
    with np.errstate(divide="ignore"):
        kept = np.flatnonzero(count * np.log(squared) > 2 * _LOG_VANISHED)
    square = spectrum[kept]
    found = np.ones(len(kept), dtype=np.complex128)
    remaining = count
    while remaining:
        if remaining & 1:
            found *= square
        remaining >>= 1
        if remaining:
            square *= square
    power = np.zeros_like(spectrum)
    power[kept] = found
    return power


def infinite_mass(parts: Sequence[Part]) -> float:
    """P-mass of an infinite composed loss."""
    if any(grid.infinite >= 1 and count for grid, count in parts):
        return 1.0
    return -math.expm1(sum(count * math.log1p(-grid.infinite) for grid, count in parts))


def _rounding(parts: Sequence[Part], size: int, sharpness: float) -> float:
    """An allowance for what rounding in the transforms can add up to over the tail.

    The relative error of a power of the transform grows with the exponent; by Parseval it spreads over the whole window, of
    which the tilt keeps about one part in `sharpness`.
    """
    steps = sum(count for _, count in parts)
    return (8.0 * steps + 16.0 * math.log2(size)) * 2.0**-53 / math.sqrt(1 + 7 * sharpness)


def _log_moment(grid: LossGrid, tilt: float) -> float:
    return float(logsumexp(np.log(grid.mass) + tilt * grid.loss))


def _moments(parts: Sequence[Part], tilt: float) -> tuple[float, float, float]:
    """Cumulant generating function at `tilt`, and mean and standard deviation of the tilted composed loss."""
    scale = mean = variance = 0.0
    for grid, count in parts:
        log_moment = _log_moment(grid, tilt)
        weight = np.exp(np.log(grid.mass) + tilt * grid.loss - log_moment)
        centre = float(weight @ grid.loss)
        scale += count * log_moment
        mean += count * centre
        variance += count * float(weight @ (grid.loss - centre) ** 2)
    return scale, mean, math.sqrt(variance)


def window(parts: Sequence[Part], tilt: float, log_aliased: float) -> tuple[float, float]:
    """An interval outside of which the tilted composed loss has at most `exp(log_aliased)` on either side (Chernoff)."""
    scale, _, spread = _moments(parts, tilt)
    highest = sum(count * float(grid.loss[-1]) for grid, count in parts)
    lowest = sum(count * float(grid.loss[0]) for grid, count in parts)
    rates = np.exp(np.linspace(math.log(0.05), math.log(50.0), 40)) / max(spread, _LEAST_SPREAD * parts[0][0].step)
    with np.errstate(over="ignore", invalid="ignore"):
        right = (cumulants(parts, tilt + rates) - scale - log_aliased) / rates
        left = -(cumulants(parts, tilt - rates) - scale - log_aliased) / rates
    return max(float(np.nanmax(left)), lowest), min(float(np.nanmin(right)), highest)


def _cheapest(parts: Sequence[Part], saddle: float, epsilon: float, log_delta: float) -> tuple[float, float]:
    """The tilt of smallest window whose rounding is negligible against delta, and the mass it may alias.

    The saddle point is most accurate, but where losses are heavy-tailed it puts weight on far too rare ones.
    """
    step = parts[0][0].step
    saddle = min(saddle, _STEEPEST / step)
    best = (math.inf, saddle, _LOG_NEGLIGIBLE - 10.0)
    for share in (1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.0):
        tilt = share * saddle
        _, _, spread = _moments(parts, tilt)
        log_aliased = _may_be_aliased(parts, tilt, epsilon, log_delta)
        if share < 1 and math.log(_rounding(parts, _LARGEST_WINDOW, tilt * spread)) > log_aliased:
            continue
        left, right = window(parts, tilt, log_aliased)
        size = (max(right, epsilon) - min(left, epsilon)) / step
        if size < 0.9 * best[0]:
            best = (size, tilt, log_aliased)
    return best[1], best[2]


def _may_be_aliased(parts: Sequence[Part], tilt: float, epsilon: float, log_delta: float) -> float:
    """Logarithm of the tilted mass that is negligible against delta at `epsilon`."""
    scale = _moments(parts, tilt)[0]
    return min(log_delta - scale + tilt * epsilon, 0.0) + _LOG_NEGLIGIBLE


def epsilon_at(parts: Sequence[Part], delta: float, side: int) -> float:
    """Least epsilon at which the composition has at most `delta`; rounding pushed up (`side` 1) or down (-1).

    Guarantee:
        With upper grids and `side` 1 an upper bound, with lower grids and `side` -1 a lower bound, up to
        floating-point rounding, for which an allowance is added; this is not interval arithmetic.
    """
    if sum(count for _, count in parts) == 0:
        return 0.0
    infinite = infinite_mass(parts)
    if infinite >= delta:
        return math.inf if side > 0 or infinite > delta * (1 + 1e-9) else 0.0
    saddle, guess = tilt_for_delta(parts, delta - infinite)
    guess, log_delta = max(guess, 0.0), math.log(delta - infinite)
    tilt, log_aliased = _cheapest(parts, saddle, guess, log_delta)
    while True:
        tail = compose(parts, tilt, log_aliased)
        found = tail.epsilon(delta, side)
        if found is not None:
            return max(found, 0.0)
        if tail.first <= 0 and tail.delta(0.0, 1) <= delta:
            return 0.0
        if tilt < 1e-6:  # everything that is certain lies right of the window
            return max(tail.first, 0.0) if side > 0 else 0.0
        tilt /= 4
        log_aliased = min(log_aliased, _may_be_aliased(parts, tilt, guess, log_delta))


def delta_at(parts: Sequence[Part], epsilon: float, side: int) -> float:
    """Delta of the composition at `epsilon`, rounding pushed up (`side` 1) or down (`side` -1)."""
    if sum(count for _, count in parts) == 0:
        return 0.0
    low, high = 1e-4, 1e7
    while high > low * 1.02:
        tilt = math.sqrt(low * high)
        low, high = (tilt, high) if _moments(parts, tilt)[1] < epsilon else (low, tilt)
    return compose(parts, high, _LOG_NEGLIGIBLE - 10.0).delta(epsilon, side)
