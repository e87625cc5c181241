"""The joint cost of steps if each mechanism is chosen after seeing the earlier releases.

With k steps to come, let `D_k(a)` be the largest `P(S) - a Q(S)` over all ways to choose. Then `D_0(a) = max(0, 1 - a)` and
`D_k(a)` is the largest `sum p(l) D_(k-1)(a exp(-l))` over the steps that are allowed (docs/theory/accounting.md,
"Batches of fixed size"). Losses are on a grid, and so is `log a`; a step is then a convolution. Every allowance is on the
side that is asked for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.stats.arrays import Array
from audit.stats.curves.discretise import LossGrid

_ROUNDING = 1e-15  # of a Fourier transform, per doubling of its length, over the norms of what is convolved


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernel:
    """P-masses `(k,)` of consecutive losses from `first` grid steps on, and the P-mass of an infinite loss."""

    first: int
    mass: Array
    infinite: float = 0.0

    @property
    def last(self) -> int:
        return self.first + len(self.mass) - 1


def kernel(grid: LossGrid, sign: int, tail: float) -> Kernel:
    """The losses of one step with tails of up to `tail` moved to the side of `sign`: above (1) or below (-1)."""
    index = grid.index if sign > 0 else np.floor(grid.index + grid.shift + 1e-9).astype(np.int64)
    first = int(index.min())
    mass = np.asarray(np.bincount(index - first, grid.mass, int(index.max()) - first + 1), dtype=np.float64)
    return without_tails(Kernel(first=first, mass=mass, infinite=grid.infinite), sign, tail)


def without_tails(full: Kernel, sign: int, tail: float) -> Kernel:
    """The kernel without the far ends of its losses, their mass on the side of `sign`: that of an infinite loss, or dropped."""
    mass, first, infinite = full.mass.copy(), full.first, full.infinite
    upper_end = len(mass) - int(np.searchsorted(np.cumsum(mass[::-1]), tail))
    upper_end = max(upper_end, 1)
    beyond = float(mass[upper_end:].sum())
    mass = mass[:upper_end]
    lower_end = min(int(np.searchsorted(np.cumsum(mass), tail)), len(mass) - 1)
    below = float(mass[:lower_end].sum())
    mass = mass[lower_end:]
    if sign > 0:
        infinite += beyond
        mass[0] += below
    else:
        mass[-1] += beyond
    return Kernel(first=first + lower_end, mass=mass, infinite=infinite)


class Programme:
    """The largest delta at every `log a` of a grid, one step more at a time.

    Args:
        start: grid index of the least `log a`.
        sign: 1 for values that are never too small, -1 for values that are never too large.
    """

    def __init__(self, kernels: Sequence[Kernel], *, step: float, start: int, stop: int, sign: int) -> None:
        from scipy import fft

        self.places = np.asarray(np.arange(start, stop) * step, dtype=np.float64)
        self._sign, self._count = sign, stop - start
        self._margin_below = max(0, *(choice.last for choice in kernels))
        self._margin_above = max(0, *(-choice.first for choice in kernels))
        longest = max(len(choice.mass) for choice in kernels)
        self._length = fft.next_fast_len(self._margin_below + self._count + self._margin_above + longest, real=True)
        self._before = np.ones(self._margin_below)
        if sign < 0:
            self._before = _certain(self.places[0] + step * np.arange(-self._margin_below, 0))
        self._steps = [
            (self._margin_below - choice.first, fft.rfft(choice.mass, self._length), choice.infinite) for choice in kernels
        ]
        self.values = _certain(self.places)

    def apply(self, values: Array) -> Array:
        """Return the values after each kernel, `(kernels, count)`, with the allowance for rounding."""
        from scipy import fft

        after = np.full(self._margin_above, values[-1] if self._sign > 0 else 0.0)
        everywhere = np.concatenate([self._before, values, after])
        allowance = self._sign * _ROUNDING * math.log2(self._length) * float(np.linalg.norm(everywhere))
        spectrum = fft.rfft(everywhere, self._length)
        rows = np.empty((len(self._steps), self._count))
        for place, (offset, transform, infinite) in enumerate(self._steps):
            after_step = fft.irfft(spectrum * transform, self._length)[offset : offset + self._count]
            rows[place] = after_step + (infinite + allowance)
        return rows

    def advance(self) -> None:
        """Put one step more before the others, the dearest at every place."""
        best = np.clip(np.max(self.apply(self.values), axis=0), 0.0, 1.0)
        if self._sign > 0:
            self.values = np.minimum.accumulate(best)
        else:
            self.values = np.maximum(best, _certain(self.places))

    def epsilon(self, delta: float) -> float:
        """The epsilon at `delta`: from above by the chord (delta is convex in `exp(epsilon)`), from below by a grid point."""
        place = int(np.searchsorted(-self.values, -delta, side="left" if self._sign > 0 else "right"))
        if self._sign < 0:
            return max(0.0, float(self.places[place - 1])) if place > 0 else 0.0
        if place == 0:
            return 0.0 if self.places[0] <= 0 else math.inf
        if place == len(self.places):
            return math.inf
        high, low = float(self.values[place - 1]), float(self.values[place])
        ends = float(self.places[place - 1]), float(self.places[place])
        share = (high - delta) / (high - low)
        return max(0.0, ends[0] + math.log1p(share * math.expm1(ends[1] - ends[0])))


def _certain(log: NDArray[np.floating]) -> Array:
    """`max(0, 1 - a)`, what no steps cost."""
    return np.asarray(np.maximum(0.0, -np.expm1(np.minimum(log, 0.0))), dtype=np.float64)
