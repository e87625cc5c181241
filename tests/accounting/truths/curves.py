"""Privacy curves of one step in ball arithmetic, at any threshold on its loss: what `whole_numbers` composes.

The curve of a pair (P, Q) is `f(z) = max over events A of P(A) - z Q(A)`, attained at `A = {dP / dQ > z}`. It is convex and
falls, with a slope between -1 and 0. The event of any other threshold gives a line below it, so `below` holds for whatever
threshold is used; if the threshold's own likelihood ratio is `z'`, `f(z) <= f(z') + max(z' - z, 0)`, which `above` is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from flint import arb

_REACH = 25.0  # standard deviations beyond the means if thresholds end: 1e-137 is beyond
_NEWTON = 5
BITS = 256


@dataclass(frozen=True, slots=True)
class Place:
    """The curve at one loss.

    Attributes:
        ratio: likelihood ratio, `exp(loss)`.
        seen: P(A) and Q(A) of an event A: the line `P(A) - z Q(A)` is below the curve.
        above: at least the value of the curve at `ratio`.
    """

    ratio: arb
    seen: tuple[arb, arb]
    above: arb

    @property
    def below(self) -> arb:
        """At most the value of the curve at `ratio`."""
        return self.seen[0] - self.ratio * self.seen[1]


class Curve(Protocol):
    """The curve of one step's pair.

    Attributes:
        atoms: the losses of its two heaviest atoms, the larger first; none if it has no two.
        top: P(A) and Q(A) of the event that the loss is at least the first of them.
    """

    @property
    def atoms(self) -> tuple[arb, ...]: ...

    @property
    def top(self) -> tuple[arb, arb]: ...

    def at(self, loss: arb) -> Place: ...


def _place(loss: arb, observed: tuple[arb, arb], threshold_ratio: arb) -> Place:
    """The place of a loss, given the event of a threshold that has the likelihood ratio `own`."""
    ratio = loss.exp()
    at_own = (observed[0] - threshold_ratio * observed[1]).max(arb(0))
    return Place(ratio, observed, at_own + (threshold_ratio - ratio).max(arb(0)))


def _tail(x: arb) -> arb:
    """Chance of a standard normal variable beyond x."""
    return (x / arb(2).sqrt()).erfc() / 2


@dataclass(frozen=True, slots=True)
class Normals:
    """Gaussian releases of a sum to which each of `size` records adds 1, if it takes part; `direction` says what changes."""

    noise: float
    rate: float
    size: int
    direction: str

    @property
    def atoms(self) -> tuple[arb, ...]:
        return ()

    @property
    def top(self) -> tuple[arb, arb]:
        return arb(0), arb(0)

    def _weights(self, sign: int) -> list[tuple[int, arb]]:
        if sign == 0:
            return [(0, arb(1))]
        q, remainder = arb(self.rate), 1 - arb(self.rate)
        if self.rate == 1:
            return [(sign * self.size, arb(1))]
        return [(sign * m, math.comb(self.size, m) * q**m * remainder ** (self.size - m)) for m in range(self.size + 1)]

    def _sides(self) -> tuple[list[tuple[int, arb]], list[tuple[int, arb]]]:
        signs = {"remove": (1, 0), "add": (0, -1), "replace": (1, -1)}[self.direction]
        return self._weights(signs[0]), self._weights(signs[1])

    def at(self, loss: arb) -> Place:
        """The curve at a loss."""
        members, peers = self._sides()
        x = self._threshold(loss, members, peers)
        observed = (self._beyond(members, x), self._beyond(peers, x))
        (over, _), (under, _) = self._lift(members, x), self._lift(peers, x)
        return _place(loss, observed, over / under)

    def _beyond(self, weights: list[tuple[int, arb]], x: arb) -> arb:
        return sum((weight * _tail((x - mean) / self.noise) for mean, weight in weights), arb(0))

    def _lift(self, weights: list[tuple[int, arb]], x: arb) -> tuple[arb, arb]:
        """Density over that of no shift, and its derivative in x."""
        variance = arb(self.noise) ** 2
        terms = [(mean, weight * ((2 * x * mean - mean * mean) / (2 * variance)).exp()) for mean, weight in weights]
        return sum((term for _, term in terms), arb(0)), sum((mean * term for mean, term in terms), arb(0)) / variance

    def _threshold(self, loss: arb, members: list[tuple[int, arb]], nonmembers: list[tuple[int, arb]]) -> arb:
        """A number close to where the loss is reached; inside the reach of the nodes in any case."""
        reach = _REACH * self.noise
        low, high = arb(-self.size - reach), arb(self.size + reach)
        if self.size == 1 and self.direction != "replace":
            sign = 1 if self.direction == "remove" else -1
            lifted = ((sign * loss).exp() - 1) / self.rate + 1
            if not lifted > 0:
                return low if sign == 1 else high
            x = sign * (arb(self.noise) ** 2 * lifted.log() + arb(0.5))
        else:
            x = arb(self._guess(float(loss.mid()), members, nonmembers))
            for _ in range(_NEWTON):
                (over, over_slope), (under, under_slope) = self._lift(members, x), self._lift(nonmembers, x)
                x = (x - (over.log() - under.log() - loss) / (over_slope / over - under_slope / under)).mid()
                if not (low <= x <= high):
                    return low if x < low else high
        x = x.mid()
        return low if x < low else high if x > high else x

    def _guess(self, loss: float, members: list[tuple[int, arb]], nonmembers: list[tuple[int, arb]]) -> float:
        reach = _REACH * self.noise

        def log_lift(weights: list[tuple[int, arb]], x: float) -> float:
            exponents = [math.log(float(w.mid())) + (2 * x * m - m * m) / (2 * self.noise**2) for m, w in weights]
            top = max(exponents)
            return top + math.log(sum(math.exp(exponent - top) for exponent in exponents))

        low, high = -self.size - reach, self.size + reach
        for _ in range(50):
            middle = (low + high) / 2
            is_left = log_lift(members, middle) - log_lift(nonmembers, middle) < loss
            low, high = (middle, high) if is_left else (low, middle)
        return (low + high) / 2


@dataclass(frozen=True, slots=True)
class SampledLaplace:
    """Laplace noise about a record's 1, which takes part with probability `rate`, or 0 without it."""

    scale: float
    rate: float
    direction: str

    @property
    def atoms(self) -> tuple[arb, ...]:
        ends = [self._loss((sign / arb(self.scale)).exp()) for sign in (1, -1)]
        return tuple(sorted(ends, key=lambda end: -float(end.mid())))

    @property
    def top(self) -> tuple[arb, arb]:
        q, shrink = arb(self.rate), (-1 / arb(self.scale)).exp()
        if self.direction == "remove":
            return (1 - q) * shrink / 2 + q / 2, shrink / 2
        return arb(1) / 2, (1 - q) / 2 + q * shrink / 2

    def _loss(self, lift: arb) -> arb:
        logarithm = (1 + arb(self.rate) * (lift - 1)).log()
        return logarithm if self.direction == "remove" else -logarithm

    def at(self, loss: arb) -> Place:
        """The curve at a loss."""
        is_removed = self.direction == "remove"
        b, q = arb(self.scale), arb(self.rate)
        lifted = ((loss if is_removed else -loss).exp() - 1) / q + 1
        x = (b * lifted.log() + 1) / 2 if lifted > 0 else arb(0)
        own_x = arb(0) if not x > 0 else arb(1) if not x < 1 else x.mid()
        absent, present = (-own_x / b).exp() / 2, 1 - (-(1 - own_x) / b).exp() / 2  # chances of an output beyond
        if not x > 0:  # every output, the atom of those below 0 included
            absent = present = arb(1)
        elif not x < 1:
            absent = present = arb(0)
        mixed = (1 - q) * absent + q * present
        likelihood = 1 + q * (((2 * own_x - 1) / b).exp() - 1)
        if is_removed:
            return _place(loss, (mixed, absent), likelihood)
        return _place(loss, (1 - absent, 1 - mixed), 1 / likelihood)


@dataclass(frozen=True, slots=True)
class Atoms:
    """Finitely many losses with their chances under P; `infinite` is the chance of a loss without bound."""

    masses: Sequence[tuple[arb, arb]]
    infinite: arb

    @property
    def atoms(self) -> tuple[arb, ...]:
        heaviest = sorted(self.masses, key=lambda row: -float(row[1].mid()))[:2]
        return tuple(sorted((loss for loss, _ in heaviest), key=lambda end: -float(end.mid())))

    @property
    def top(self) -> tuple[arb, arb]:
        first = float(self.atoms[0].mid())
        above = [(mass, mass * (-loss).exp()) for loss, mass in self.masses if float(loss.mid()) >= first]
        return self.infinite + sum((mass for mass, _ in above), arb(0)), sum((peer for _, peer in above), arb(0))

    def at(self, loss: arb) -> Place:
        """The curve at a loss."""
        ratio = loss.exp()
        above, observed = arb(self.infinite), [arb(self.infinite), arb(0)]
        for atom, mass in self.masses:
            above += (mass * (1 - (loss - atom).exp())).max(arb(0))
            if float(atom.mid()) > float(loss.mid()):
                observed = [observed[0] + mass, observed[1] + mass * (-atom).exp()]
        return Place(ratio, (observed[0], observed[1]), above)
