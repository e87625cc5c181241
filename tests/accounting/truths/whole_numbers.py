"""Two ends around the epsilon of composed mechanisms in whole numbers: every rounding has a side, by theorem.

A second bracket for whatever is composed of steps with a privacy curve in closed form (`curves`). It shares nothing with the
oracle: no tilt, no quadrature, no FFT in floats; curves are balls (Arb), chances are integers, products are exact.

1. *Order.* With `f` the curve of one step, that of the step beside anything else (R, S) is `E_R f(z dS / dR)`. So it grows
   if f does: any `g <= f` instead of f gives a lower bound on delta of the whole composition, any `g >= f` an upper
   one, one step after the other. What g has to be is a sum of kinks, `sum q_k max(z_k - z, 0) + c` with all of them at least 0.
2. *Above.* g runs straight between the values of f at the places `z_k = exp(offset + k h)`, from 1 at zero, and is constant
   beyond the last (that constant is a chance of an infinite loss).
3. *Below.* Each cell between two places has a line below f (the event of a threshold in its middle). g runs straight between
   the lesser of the two neighbouring lines at each place, so in every cell it is below that cell's line. If the result is
   not convex its hull is taken, which is lower.
4. *Composition.* `p_k = z_k q_k` is the chance of the loss `offset + k h`; losses add, so chances multiply as polynomials. They
   are multiples of 2^-B, rounded to their side before and after every product. What leaves a window is dropped below; above it
   is moved up: to the window's first loss, or to the infinite one. `delta = infinite + sum P_k (1 - exp(epsilon - loss_k))`.

Floats choose grids and windows and where to look for epsilon; no bound depends on them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx, fmpz, fmpz_poly

from tests.accounting.truths.curves import BITS, Curve

PLACES = 160  # binary places of a chance
_ONE = fmpz(1) << PLACES
_GUARD = arb(2) ** -200
_BESIDE = arb(2) ** -150
_MOST = 400_000
_SMALL = 18.0  # e-folds below delta that one window may lose
Cumulant = Callable[[float], float]
"""Logarithm of the moment `E_P exp(s loss)` of everything that is run of one leaf."""


class NotDecided(ArithmeticError):
    """The grid would be too fine, or the two ends are nowhere."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A step, how often it runs, which losses of it matter and where their middle is, and its cumulant (one run) for plans."""

    curve: Curve
    count: int
    span: tuple[float, float]
    middle: float
    cumulant: Cumulant


@dataclass(frozen=True, slots=True)
class Chances:
    """Chances of the losses `offset + (first + k) h`, in units of 2^-B, and that of an infinite loss."""

    first: int
    values: fmpz_poly
    infinite: fmpz
    offset: arb


def _floor(value: arb) -> fmpz:
    return max((value * (arb(2) ** PLACES)).lower().floor().unique_fmpz() or fmpz(0), fmpz(0))


def _ceil(value: arb) -> fmpz:
    return max((value * (arb(2) ** PLACES)).upper().ceil().unique_fmpz() or fmpz(0), fmpz(0))


def _grid(leaf: Leaf, h: arb, offset: arb) -> tuple[int, int]:
    """First and last place of a grid that covers the losses that matter."""
    width, start = float(h.mid()), float(offset.mid())
    first, last = math.floor((leaf.span[0] - start) / width) - 1, math.ceil((leaf.span[1] - start) / width) + 1
    if last - first > _MOST:
        raise NotDecided(f"{last - first} losses of one step")
    return first, last


def above(leaf: Leaf, h: arb) -> Chances:
    """A step that is at least as telling, on a grid."""
    offset = leaf.curve.atoms[0] if leaf.curve.atoms else arb(0)
    first, last = _grid(leaf, h, offset)
    places = [leaf.curve.at(offset + k * h) for k in range(first, last + 1)]
    values, z = [place.above for place in places], [place.ratio for place in places]
    slopes = (
        [(values[0] - 1) / z[0]]
        + [(b - a) / (y - x) for a, b, x, y in zip(values, values[1:], z, z[1:], strict=False)]
        + [arb(0)]
    )
    masses = [_ceil(ratio * (right - lhs)) for ratio, lhs, right in zip(z, slopes[:-1], slopes[1:], strict=True)]
    return Chances(first, fmpz_poly(masses), _ceil(values[-1]), offset)


def below(leaf: Leaf, h: arb) -> Chances:
    """A step that is at most as telling, on a grid."""
    offset = leaf.curve.atoms[0] - _BESIDE if leaf.curve.atoms else _middle(leaf, h)
    first, last = _grid(leaf, h, offset)
    lines = [leaf.curve.at(offset + k * h + h / 2).seen for k in range(first, last)]  # one a cell, from about its middle
    if leaf.curve.atoms and first < 0 < last:
        lines[-1 - first] = leaf.curve.top  # of the cell that ends at the atom: its line meets the curve there
    z = [(offset + k * h).exp() for k in range(first, last)]
    values = [_least(pair, ratio) for pair, ratio in zip(zip(lines[:1] + lines, lines, strict=False), z, strict=True)]
    end = next((k for k, value in enumerate(values) if not value > 0), len(values) - 1)
    while (
        end > 0 and not lines[end - 1][0] - z[end] * lines[end - 1][1] >= 0
    ):  # there g ends at 0, below the line of its last cell
        end -= 1
    if end < 1:
        return Chances(first, fmpz_poly([]), fmpz(0), offset)
    xs = [arb(0), *z[: end + 1]]
    ys = [(lines[0][0] - 4 * _GUARD).lower(), *values[:end], -_GUARD]
    corners = _hull(xs, ys)
    _check(xs, ys, corners)
    masses = [fmpz(0)] * (end + 1)
    slopes = [(ys[b] - ys[a]) / (xs[b] - xs[a]) for a, b in itertools.pairwise(corners)] + [arb(0)]
    for corner, lhs, right in zip(corners[1:], slopes[:-1], slopes[1:], strict=True):
        masses[corner - 1] = _floor(xs[corner] * (right - lhs))
    return Chances(first, fmpz_poly(masses), fmpz(0), offset)


def _least(lines: tuple[tuple[arb, arb], tuple[arb, arb]], ratio: arb) -> arb:
    """The lesser of the lines of the two cells that meet at a place."""
    (first, left_slope), (right, right_slope) = lines
    return ((first - ratio * left_slope).min(right - ratio * right_slope) - 3 * _GUARD).lower()


def _middle(leaf: Leaf, h: arb) -> arb:
    """The loss of all outcomes of the cell around which the step's losses are, merged into one: a grid with it loses least."""
    loss = arb(leaf.middle)
    for _ in range(8):
        (first, left_slope), (right, right_slope) = (leaf.curve.at(loss + sign * h / 2).seen for sign in (-1, 1))
        merged = (first - right) / (left_slope - right_slope) if left_slope > right_slope else arb(1)
        if not merged > 0:
            break
        loss = merged.log().mid()
    return loss


def _hull(xs: Sequence[arb], ys: Sequence[arb]) -> list[int]:
    """Corners of the convex hull from below."""
    corners: list[int] = []
    slopes: list[arb] = []
    for place in range(len(xs)):
        while corners:
            slope = (ys[place] - ys[corners[-1]]) / (xs[place] - xs[corners[-1]])
            if not slopes or slope > slopes[-1]:
                slopes.append(slope)
                break
            corners.pop()
            slopes.pop()
        corners.append(place)
    return corners


def _check(xs: Sequence[arb], ys: Sequence[arb], corners: Sequence[int]) -> None:
    """Raise if a place that is no corner is below the hull by more than the guard."""
    for a, b in itertools.pairwise(corners):
        slope = (ys[b] - ys[a]) / (xs[b] - xs[a])
        for place in range(a + 1, b):
            if not ys[a] + slope * (xs[place] - xs[a]) <= ys[place] + _GUARD:
                raise NotDecided("a hull that is no hull at these digits")


# ---- composition ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """Where to look: delta, epsilon, the tilt at its saddle point, and the width of the grid."""

    delta: float
    epsilon: float
    tilt: float
    h: arb

    def window(self, part: Cumulant, complement: Cumulant) -> tuple[float, float]:
        """Losses of a partial composition beyond which nothing matters; `rest` is the cumulant of what is still to come."""
        wanted = math.log(self.delta) - _SMALL
        at_tilt = complement(self.tilt) - self.tilt * self.epsilon
        lower = [(s, part(s)) for s in self.tilt * np.array([-0.5, 0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.9, 0.95])]
        upper = [
            (s, part(s)) for s in self.tilt * np.array([0.5, 0.8, 1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 1.8, 2.2, 3.0, 5.0, 10.0])
        ]
        low = max((wanted - at_tilt - k) / (self.tilt - s) for s, k in lower if math.isfinite(k))
        high = min((k - wanted) / s for s, k in upper if math.isfinite(k))
        if low < high:
            return low, high
        s = self.tilt / 2  # nothing matters: most of it is kept, so that it is not taken for more than it is
        return min((-_SMALL - part(-s)) / s, high), high


def _times(first: Chances, second: Chances, *, side: int) -> Chances:
    product = first.values * second.values
    values = [_rounded(value, side) for value in product.coeffs()]
    infinite = first.infinite + second.infinite  # at least the chance of either
    return Chances(first.first + second.first, fmpz_poly(values), infinite, first.offset + second.offset)


def _rounded(value: fmpz, side: int) -> fmpz:
    return value >> PLACES if side < 0 else -((-value) >> PLACES)


def _cut(chances: Chances, window: tuple[float, float], h: arb, *, side: int) -> Chances:
    """Chances inside a window; what is outside is dropped below, and moved up above."""
    start = float(chances.offset.mid())
    low = max(math.floor((window[0] - start) / float(h.mid())) - chances.first, 0)
    high = max(math.ceil((window[1] - start) / float(h.mid())) - chances.first, low + 1)
    values = chances.values.coeffs()
    if low >= len(values):  # nothing in it matters
        values += [fmpz(0)] * (low + 1 - len(values))
    retained, infinite = values[low : high + 1], chances.infinite
    if side > 0:
        retained[0] += sum(values[:low], fmpz(0))
        infinite += sum(values[high + 1 :], fmpz(0))
    return Chances(chances.first + low, fmpz_poly(retained), infinite, chances.offset)


def compose(leaves: Sequence[Leaf], plan: Plan, *, side: int) -> Chances:
    """All of it together, at least as telling (`side` 1) or at most (-1)."""
    counts = [leaf.count for leaf in leaves]

    def cumulant(done: Sequence[int], s: float) -> float:
        return sum(count * leaf.cumulant(s) for count, leaf in zip(done, leaves, strict=True) if count)

    def cut(chances: Chances, done: Sequence[int]) -> Chances:
        remainder = [total - spent for total, spent in zip(counts, done, strict=True)]
        window = plan.window(lambda s: cumulant(done, s), lambda s: cumulant(remainder, s))
        return _cut(chances, window, plan.h, side=side)

    total: Chances | None = None
    finished = [0] * len(leaves)
    for place, leaf in enumerate(leaves):
        power, size = (above if side > 0 else below)(leaf, plan.h), 1
        alone: Chances | None = None
        bits, done = leaf.count, 0
        while bits:
            here = [0] * len(leaves)
            if bits & 1:
                done += size
                here[place] = done
                alone = power if alone is None else cut(_times(alone, power, side=side), here)
            bits >>= 1
            if bits:
                size *= 2
                here[place] = size
                power = cut(_times(power, power, side=side), here)
        if alone is not None:
            finished[place] = leaf.count
            total = alone if total is None else cut(_times(total, alone, side=side), finished)
    assert total is not None
    if any(value > 4 * _ONE for value in total.values.coeffs()):
        raise NotDecided("chances above 1: losses beyond the digits of the balls")
    return total


def read_delta(chances: Chances, h: arb, epsilon: float) -> arb:
    """A ball that holds delta of these chances at an epsilon (not negative)."""
    values = chances.values.coeffs()
    start = chances.offset + chances.first * h
    skipped = max(math.ceil((epsilon - float(start.mid())) / float(h.mid())), 0)
    while skipped > 0 and start + (skipped - 1) * h > epsilon:
        skipped -= 1
    while skipped < len(values) and not start + skipped * h > epsilon:  # at most level with epsilon, if a loss adds nothing
        skipped += 1
    retained = values[skipped:]
    total, fallen, shrink = sum(retained, fmpz(0)), arb(0), (-h).exp()
    for value in reversed(retained):
        fallen = fallen * shrink + arb(value)
    first = (arb(epsilon) - start - skipped * h).exp()
    return (arb(chances.infinite) + arb(total) - first * fallen) / arb(2) ** PLACES + arb(0, 2.0**-190)


def _search(chances: Chances, h: arb, delta: float) -> float:
    """About the epsilon at delta, in floats."""
    scale = 2.0**-PLACES
    if not len(chances.values.coeffs()):
        return 0.0 if float(int(chances.infinite)) * scale < delta else math.inf
    masses = np.array([float(int(value)) * scale for value in chances.values.coeffs()])
    losses = float((chances.offset + chances.first * h).mid()) + float(h.mid()) * np.arange(len(masses))
    infinite = float(int(chances.infinite)) * scale

    def value(epsilon: float) -> float:
        inside = losses > epsilon
        return infinite + float(masses[inside] @ -np.expm1(epsilon - losses[inside]))

    low, high = 0.0, max(float(losses[-1]), 0.0)
    if value(low) <= delta:
        return 0.0
    if infinite >= delta:
        return math.inf
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if value(middle) > delta else (low, middle)
    return (low + high) / 2


def lower_end(leaves: Sequence[Leaf], plan: Plan) -> float:
    """An epsilon at which delta is proved to be exceeded; 0 if none is."""
    ctx.prec = BITS
    chances = compose(leaves, plan, side=-1)
    near = _search(chances, plan.h, plan.delta)
    for width in (1e-12, 1e-10, 1e-8):
        if near > 0 and read_delta(chances, plan.h, near * (1 - width)) > plan.delta:
            return near * (1 - width)
    return 0.0


def upper_end(leaves: Sequence[Leaf], plan: Plan) -> float:
    """An epsilon at which delta is proved to be enough; infinity if none is."""
    ctx.prec = BITS
    chances = compose(leaves, plan, side=1)
    near = _search(chances, plan.h, plan.delta)
    for width in (1e-12, 1e-10, 1e-8):
        epsilon = near * (1 + width)
        if math.isfinite(near) and read_delta(chances, plan.h, epsilon) <= plan.delta:
            return epsilon
    return math.inf
