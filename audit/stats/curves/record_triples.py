"""Losses of one step on a batch of fixed size, for three places: the record, its replacement, and the record that it displaces.

The release is `(1 - q) N(x) + q N(a)` against `(1 - q) N(x) + q N(b)`, with unit noise in the plane of the three points. Only
the Gram matrix of `a - x` and `b - x` counts, and a larger one (in the order of positive semidefinite matrices) costs at least
as much: there is a linear contraction between the triples, and noise makes up for the reduction.

The plane is cut into rectangles. What a rectangle weighs under either hypothesis is a product of normal masses, and its masses
are split over the least and the largest loss in it, which only spreads the likelihood ratio.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri_exp

from audit.stats.arrays import Array
from audit.stats.curves.adaptive_composition import Kernel, without_tails
from audit.stats.curves.loss_pairs import sampled_loss

_FARTHEST = 1e-9  # of a grid step: losses this close to a grid point may be on its other side
_SMALLEST_MASS = 1e-280


@dataclass(frozen=True, slots=True, kw_only=True)
class Gram:
    """Inner products of `a - x` and `b - x`, in units of the noise: their squares and their product."""

    member: float
    replacement: float
    product: float

    def points(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """`a - x` and `b - x` in a plane with its first axis along the longer."""
        long, short = max(self.member, self.replacement), min(self.member, self.replacement)
        along = self.product / math.sqrt(long) if long > 0 else 0.0
        oblique = (along, math.sqrt(max(short - along * along, 0.0)))
        straight = (math.sqrt(long), 0.0)
        return (straight, oblique) if self.member >= self.replacement else (oblique, straight)


def above(gram: Gram, rate: float, *, step: float, tail: float, width: float) -> Kernel:
    """Losses on a grid that dominate those of the triple.

    Args:
        tail: mass up to which the ends of the losses are not resolved.
        width: of a rectangle, in units of the noise.
    """
    mass, ratio, least_loss, largest_loss = (
        cells.ravel() for cells in _rectangles(gram, rate, width, -float(ndtri_exp(math.log(tail))))
    )
    positive = mass > _SMALLEST_MASS
    infinite = max(0.0, 1 - float(mass[positive].sum())) + 1e-15
    mass, ratio = mass[positive], ratio[positive]
    low = np.floor(least_loss[positive] / step - _FARTHEST).astype(np.int64)
    high = np.maximum(np.ceil(largest_loss[positive] / step + _FARTHEST).astype(np.int64), low + 1)
    ratio = np.clip(ratio, low * step, high * step)
    share = np.expm1(high * step - ratio) / np.expm1((high - low) * step)
    first = int(low.min())
    count = int(high.max()) - first + 1
    total = np.bincount(low - first, mass * share, count) + np.bincount(high - first, mass * (1 - share), count)
    masses = np.asarray(total, dtype=np.float64)
    return without_tails(Kernel(first=first, mass=masses, infinite=infinite), 1, tail)


def _rectangles(gram: Gram, rate: float, width: float, reach: float) -> tuple[Array, Array, Array, Array]:
    """P-mass of each rectangle, the logarithm of the ratio of its masses, the least loss and the largest in it."""
    member, replacement = gram.points()
    longest = max(math.hypot(*member), math.hypot(*replacement), 1e-12)
    across = max(abs(member[1]), abs(replacement[1]), 1e-12 * longest)
    edges = [
        _edges((0.0, member[0], replacement[0]), reach, width),
        _edges((0.0, member[1], replacement[1]), reach, min(width * longest / across, 2 * reach)),
    ]

    def weight(point: tuple[float, float]) -> Array:
        first, second = (_normal_masses(edge, centre) for edge, centre in zip(edges, point, strict=True))
        return np.asarray(first[:, None] * second[None, :], dtype=np.float64)

    def loss(point: tuple[float, float], largest: bool) -> Array:
        # the loss is monotone along each axis, so its extremes lie in corners; which one, the sign of the centre says
        parts = [place * (edge[1:] if (place > 0) == largest else edge[:-1]) for place, edge in zip(point, edges, strict=True)]
        return sampled_loss(parts[0][:, None] + parts[1][None, :] - (point[0] ** 2 + point[1] ** 2) / 2, rate)

    remainder = (1 - rate) * weight((0.0, 0.0))
    masses, nonmember_masses = remainder + rate * weight(member), remainder + rate * weight(replacement)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(masses) - np.log(nonmember_masses)
    return masses, ratio, loss(member, False) - loss(replacement, True), loss(member, True) - loss(replacement, False)


def _edges(centres: tuple[float, ...], reach: float, width: float) -> Array:
    first, right = min(centres) - reach, max(centres) + reach
    return np.linspace(first, right, max(1, math.ceil((right - first) / width)) + 1)


def _normal_masses(edges: Array, centre: float) -> Array:
    low, high = edges[:-1] - centre, edges[1:] - centre
    return np.asarray(np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)), dtype=np.float64)
