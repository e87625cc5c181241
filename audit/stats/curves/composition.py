"""Epsilon and delta of a composition from below and from above, accurate relative to delta even at 1e-15.

A composed privacy loss is a sum of independent losses. Its distribution is found by an FFT after exponential tilting
(each mass times `exp(tilt * loss)`, normalised), with the tilt at the saddle point of the wanted tail: what is small
before tilting is of order one after it, so that rounding is relative to delta and not to 1.

References:
    Koskela, Jalko, Honkela 2020, arXiv 1906.03049. Gopi, Lee, Wutschitz 2021, arXiv 2106.02848.
    Zhu, Dong, Wang 2022, arXiv 2106.08567 (dominating pairs compose).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from audit.stats.arrays import Array
from audit.stats.curves.tilting import Part, infinite_mass, log_moment_at, moments, tilt_for_delta, window

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


_LOG_NEGLIGIBLE = math.log(1e-8)  # part of delta that aliasing and rounding may each add or take
_LARGEST_WINDOW = 1 << 23
_LOG_VANISHED = math.log(1e-40)  # of a characteristic function of modulus at most 1, far below its rounding
_STEEPEST = 4.0  # largest tilt, over a step: beyond it the tilted mass is that of one grid point


def compose(parts: Sequence[Part], tilt: float, log_aliased: float) -> ComposedTail:
    """The composed loss around its tilted mean, up to tilted mass `exp(log_aliased)` on either side; `MemoryError` if the
    window would need more than 2^23 entries; use a wider grid.
    """
    step = parts[0][0].step
    scale, mean, spread = moments(parts, tilt)
    first, masses_tilted = composed_masses(parts, tilt, window(parts, tilt, log_aliased))
    size = len(masses_tilted)
    # entry j represents the mass times exp(tilt * (mean - loss_j)), up to a common scale
    away = step * np.arange(size)
    with np.errstate(over="ignore", under="ignore"):
        masses = masses_tilted * np.exp(np.minimum(-tilt * (away + (first - mean)), FARTHEST))
        above, tail_sums = sums_from(masses), faded_sums_from(masses, step)
    return ComposedTail(
        first=first,
        step=step,
        above=above,
        faded_sums=tail_sums,
        log_scale=scale - tilt * mean,
        infinite=infinite_mass(parts),
        error=2 * math.exp(log_aliased) + _rounding(parts, size, tilt * spread),
        tilt=tilt,
        mean=mean,
    )


def composed_masses(parts: Sequence[Part], tilt: float, limits: tuple[float, float]) -> tuple[float, Array]:
    """The first loss and the masses of the tilted, normalised composed loss; what is outside the limits is aliased. Raises
    `MemoryError` if the window would need more than 2^23 entries; use a wider grid.
    """
    step, (first, right) = parts[0][0].step, limits
    size = fft.next_fast_len(max(math.ceil((right - first) / step) + 4, 16), real=True)
    if size > _LARGEST_WINDOW:
        raise MemoryError(f"a window of {size} entries of width {step:g}; choose a wider grid")
    shift = sum(count * grid.shift for grid, count in parts)
    start = math.floor(first / step - shift) - 2
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for grid, count in parts:
        weight = np.exp(np.log(grid.mass) + tilt * grid.loss - log_moment_at(grid, tilt))
        cyclic = np.bincount(np.mod(grid.index, size), weight, size)
        spectrum *= _power(fft.rfft(cyclic), count)
    # entry j of the cyclic result is index j modulo the size: turned so that the window starts first
    masses_tilted = np.maximum(np.roll(fft.irfft(spectrum, size), -(start % size)), 0.0)
    return (start + shift) * step, masses_tilted


def _power(spectrum: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """`spectrum ** count` by repeated squaring; what falls below 1e-40 is zero."""
    squares = spectrum.real**2 + spectrum.imag**2
    with np.errstate(divide="ignore"):
        nonzero = np.flatnonzero(count * np.log(squares) > 2 * _LOG_VANISHED)
    square = spectrum[nonzero]
    powers = np.ones(len(nonzero), dtype=np.complex128)
    remaining = count
    while remaining:
        if remaining & 1:
            powers *= square
        remaining >>= 1
        if remaining:
            square *= square
    power = np.zeros_like(spectrum)
    power[nonzero] = powers
    return power


def _rounding(parts: Sequence[Part], size: int, sharpness: float) -> float:
    """An allowance for what rounding in the transforms can add up to over the tail.

    The relative error of a power of the transform grows with the exponent; by Parseval it spreads over the whole window, of
    which the tilt keeps about one part in `sharpness`.
    """
    steps = sum(count for _, count in parts)
    return (8.0 * steps + 16.0 * math.log2(size)) * 2.0**-53 / math.sqrt(1 + 7 * sharpness)


def _cheapest(parts: Sequence[Part], saddle: float, epsilon: float, log_delta: float) -> tuple[float, float]:
    """The tilt of smallest window with a rounding that is negligible against delta, and the mass it may alias.

    The saddle point is most accurate, but if losses are heavy-tailed it puts weight on far too rare ones.
    """
    step = parts[0][0].step
    saddle = min(saddle, _STEEPEST / step)
    best = (math.inf, saddle, _LOG_NEGLIGIBLE - 10.0)
    for share in (1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.0):
        tilt = share * saddle
        _, _, spread = moments(parts, tilt)
        log_aliased = _may_be_aliased(parts, tilt, epsilon, log_delta)
        if share < 1 and math.log(_rounding(parts, _LARGEST_WINDOW, tilt * spread)) > log_aliased:
            continue
        first, right = window(parts, tilt, log_aliased)
        size = (max(right, epsilon) - min(first, epsilon)) / step
        if size < 0.9 * best[0]:  # for a window a tenth smaller the most accurate tilt is given up
            best = (size, tilt, log_aliased)
    return best[1], best[2]


def _may_be_aliased(parts: Sequence[Part], tilt: float, epsilon: float, log_delta: float) -> float:
    """Logarithm of the tilted mass that is negligible against delta at `epsilon`."""
    scale = moments(parts, tilt)[0]
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
        # equal up to rounding: infinity is not certain from below
        return math.inf if side > 0 or infinite > delta * (1 + 1e-9) else 0.0
    saddle, guess = tilt_for_delta(parts, delta - infinite)
    guess, log_delta = max(guess, 0.0), math.log(delta - infinite)
    tilt, log_aliased = _cheapest(parts, saddle, guess, log_delta)
    while True:
        tail = compose(parts, tilt, log_aliased)
        epsilon = tail.epsilon(delta, side)
        if epsilon is not None:
            return max(epsilon, 0.0)
        if tail.first <= 0 and tail.delta(0.0, 1) <= delta:
            return 0.0
        if tilt < 1e-6:  # everything that is certain is right of the window
            return max(tail.first, 0.0) if side > 0 else 0.0
        tilt /= 4
        log_aliased = min(log_aliased, _may_be_aliased(parts, tilt, guess, log_delta))
