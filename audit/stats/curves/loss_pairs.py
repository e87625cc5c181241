"""Pairs of distributions that a mechanism gives on neighbouring data, as their privacy loss along one axis.

A pair `(P, Q)` is described on a real axis on which the loss `log p / q` increases: the position of a loss (`position`), the
loss at a position (`loss`), the density of P, and an atom for each stretch on which the loss is constant.
That is all that `audit.stats.curves.discretise` needs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri_exp

from audit.stats.arrays import Array

Direction = Literal["remove", "add", "replace"]
_SMOOTH_PIECES = 4  # quadrature pieces per length over which the densities bend


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPair:
    """One step's pair of distributions P and Q, on an axis of positions on which the loss `log p / q` increases.

    Attributes:
        loss: increasing map from position to loss, elementwise.
        position: its inverse; infinite for losses that are not reached.
        log_density: logarithm of P's density at a position in one of the spans.
        spans: disjoint intervals of positions that quadrature covers, ascending.
        bend: width of a quadrature piece; the density is smooth over it.
        outside: upper bound on the P-mass outside of all spans and atoms.
        spread: standard deviation of the loss, approximately; it sets the grid.
        atoms: `(loss, P-mass)` of each stretch of positions on which the loss is constant.
    """

    loss: Callable[[Array], Array]
    position: Callable[[Array], Array]
    log_density: Callable[[Array], Array]
    spans: tuple[tuple[float, float], ...]
    bend: float
    outside: float
    spread: float
    atoms: tuple[tuple[float, float], ...] = ()

    @property
    def left(self) -> float:
        """The least position that quadrature covers."""
        return self.spans[0][0] if self.spans else 0.0

    @property
    def right(self) -> float:
        """The largest position that quadrature covers."""
        return self.spans[-1][1] if self.spans else 0.0


def mass_outside(log_tail: float) -> float:
    """Return a bound on the P-mass outside of spans that reach, around every centre, as far as tails of `exp(log_tail)`.

    P is a mixture of shifts of one law; each shift has two such tails outside of its own span: `2 exp(log_tail)`. Twice that
    also covers the rounding of the reach, and masses of integer noise that were normalised without their tails.
    """
    return 4 * math.exp(log_tail)


def spans_around(centres: Sequence[float], reach: float) -> tuple[tuple[float, float], ...]:
    """Return the intervals that extend by `reach` to either side of ascending centres; those that meet are joined.

    >>> spans_around([0.0, 1.0, 5.0], 0.5)
    ((-0.5, 1.5), (4.5, 5.5))
    """
    spans: list[tuple[float, float]] = []
    for centre in centres:
        first, right = centre - reach, centre + reach
        if spans and first <= spans[-1][1]:
            first = spans.pop()[0]
        spans.append((first, right))
    return tuple(spans)


def sampled_loss(loss: Array, rate: float) -> Array:
    """Return `log(1 - rate + rate exp(loss))`, elementwise: the loss after Poisson sampling, accurate to relative rounding.

    >>> float(sampled_loss(np.array([0.0]), 0.3)[0])
    0.0
    """
    if rate == 1:
        return loss
    # near 0 by expm1, so that small rates keep their digits; far out the larger term is taken out, as exp would overflow
    small = np.log1p(rate * np.expm1(np.clip(loss, -1.0, 30.0)))
    low = np.log((1 - rate) + rate * np.exp(np.minimum(loss, 0.0)))
    large = loss + math.log(rate) + np.log1p((1 - rate) / rate * np.exp(-np.maximum(loss, 30.0)))
    return np.where(loss < -1.0, low, np.where(loss < 30.0, small, large))


def unsampled_loss(loss: Array, rate: float) -> Array:
    """Return the inverse of `sampled_loss`, elementwise; minus infinity at or below its infimum `log(1 - rate)`."""
    if rate == 1:
        return loss
    with np.errstate(divide="ignore"):
        small = np.log1p(np.maximum(np.expm1(np.clip(loss, -1.0, 30.0)) / rate, -1.0))
        low = np.log(np.maximum(np.exp(np.minimum(loss, 0.0)) - (1 - rate), 0.0)) - math.log(rate)
    large = loss - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(loss, 30.0)))
    return np.where(loss < -1.0, low, np.where(loss < 30.0, small, large))


def loss_std(noise: float, rate: float) -> float:
    """Return about the standard deviation of the loss of one step of the subsampled Gaussian, without rare large losses."""
    return rate * min(1 / noise, math.sqrt(math.expm1(min(1 / noise**2, 700.0))))


def subsampled_gaussian(noise: float, rate: float, direction: Direction, *, log_tail: float = -70.0) -> LossPair:
    """Return the dominating pair of one step of the Poisson-subsampled Gaussian mechanism.

    Args:
        noise: standard deviation over the norm bound of one record's contribution.
        rate: sampling probability, in (0, 1].
        direction: "remove" (the data of P hold the record), "add" (those of Q hold it), "replace" (those of P hold one record,
            those of Q its opposite).
        log_tail: logarithm of the probability of each tail that the spans leave out.

    References:
        Zhu, Dong, Wang 2022, arXiv 2106.08567, Theorem 11 (add, remove). Schuchardt et al. 2024, arXiv 2403.04867 (replace).
    """
    variance = noise * noise
    reach = -float(ndtri_exp(log_tail)) * noise
    constant = -math.log(noise * math.sqrt(2 * math.pi))
    centres: tuple[float, ...]

    def forward(x: Array) -> Array:  # loss of seeing the record against not, before sampling
        return (2 * x - 1) / (2 * variance)

    def gaussian(x: Array) -> Array:
        return constant - x * x / (2 * variance)

    def mixture(x: Array) -> Array:
        return gaussian(x) + sampled_loss(forward(x), rate)

    centres = (0.0, 1.0)
    if direction == "remove":
        loss = lambda x: sampled_loss(forward(x), rate)  # noqa: E731
        position = lambda l: variance * unsampled_loss(l, rate) + 0.5  # noqa: E731
        density: Callable[[Array], Array] = mixture
    elif direction == "add":
        centres = (-1.0, 0.0)
        loss = lambda x: -sampled_loss(forward(-x), rate)  # noqa: E731
        position = lambda l: -(variance * unsampled_loss(-l, rate) + 0.5)  # noqa: E731
        density = gaussian
    else:
        centres = (-1.0, 0.0, 1.0)
        loss = lambda x: sampled_loss(forward(x), rate) - sampled_loss(forward(-x), rate)  # noqa: E731
        position = lambda l: variance * (l / 2 + _scaled_asinh(l / 2, _log_odds(noise, rate)))  # noqa: E731
        density = mixture
    spread = loss_std(noise, rate) if direction != "replace" else _replace_spread(noise, rate)
    return LossPair(
        loss=loss,
        position=position,
        log_density=density,
        spans=spans_around(centres, reach),
        bend=noise / _SMOOTH_PIECES,
        outside=mass_outside(log_tail),
        spread=spread,
    )


def _replace_spread(noise: float, rate: float) -> float:
    return min(2 / noise, 2 * loss_std(noise, rate)) if rate < 1 else 2 / noise


def _log_odds(noise: float, rate: float) -> float:
    """Logarithm of `(1 - rate) / (rate exp(-1 / (2 noise^2)))`."""
    return (math.log1p(-rate) if rate < 1 else -math.inf) - math.log(rate) + 1 / (2 * noise * noise)


def _scaled_asinh(half: Array, log_factor: float) -> Array:
    """`asinh(exp(log_factor) sinh(half))` without overflow."""
    if log_factor == -math.inf:
        return np.zeros_like(half)
    size = np.abs(half)
    with np.errstate(divide="ignore", over="ignore"):
        log_sinh = np.where(
            size > 1e-3, size + np.log1p(-np.exp(-2 * size)) - math.log(2), np.log(np.sinh(np.minimum(size, 1.0)))
        )
        logarithm = log_factor + log_sinh
        value = np.where(logarithm > 20, logarithm + math.log(2), np.arcsinh(np.exp(np.minimum(logarithm, 20.0))))
    return np.sign(half) * value


def subsampled_laplace(scale: float, rate: float, direction: Direction, *, log_tail: float = -70.0) -> LossPair:
    """Return the dominating pair of one step of the Poisson-subsampled Laplace mechanism; `ValueError` for replacing a record
    at a rate below 1.

    Args:
        scale: scale of the noise over the bound on one record's contribution.
        rate: sampling probability, in (0, 1]; replacing a record is covered for rate 1 only.
        log_tail: logarithm of the probability beyond which the middle between two far peaks is not resolved.

    References: Zhu, Dong, Wang 2022, arXiv 2106.08567.
    """
    if direction == "replace":
        if rate != 1:
            raise ValueError(f"rate is {rate}; replacing a record is covered for the unsampled Laplace mechanism only")
        scale = scale / 2

    # x counts contributions of one record: noise alone peaks at 0, with the record at 1. Beyond them the loss is constant,
    # and that mass lies in the two atoms
    def forward(x: Array) -> Array:
        return (2 * x - 1) / scale

    def laplace(x: Array) -> Array:
        return -np.abs(x) / scale - math.log(2 * scale)

    end = 1 / scale
    low, high = (float(sampled_loss(np.array([t]), rate)[0]) for t in (-end, end))
    member_low = (1 - rate) / 2 + rate * math.exp(-end) / 2  # P-mass of x < 0 if P samples the record
    member_high = (1 - rate) * math.exp(-end) / 2 + rate / 2

    def mixture(x: Array) -> Array:
        return laplace(x) + sampled_loss(forward(x), rate)

    loss: Callable[[Array], Array] = lambda x: sampled_loss(forward(x), rate)  # noqa: E731
    position: Callable[[Array], Array] = lambda l: (scale * unsampled_loss(l, rate) + 1) / 2  # noqa: E731
    density, start, atoms = mixture, 0.0, ((low, member_low), (high, member_high))
    if direction == "add":
        loss = lambda x: -sampled_loss(forward(-x), rate)  # noqa: E731
        position = lambda l: -(scale * unsampled_loss(-l, rate) + 1) / 2  # noqa: E731
        density, start, atoms = laplace, -1.0, ((-high, math.exp(-end) / 2), (-low, 0.5))
    reach = min(-log_tail * scale, 1.0)
    return LossPair(
        loss=loss,
        position=position,
        log_density=density,
        spans=((start, start + 1),) if 2 * reach >= 1 else ((start, start + reach), (start + 1 - reach, start + 1)),
        bend=min(scale, 1.0) / _SMOOTH_PIECES,
        outside=0.0 if 2 * reach >= 1 else 2 * math.exp(log_tail),
        spread=rate * min(1 / scale, 1.0),
        atoms=atoms,
    )


def finite_pair(losses: tuple[float, ...], masses: tuple[float, ...]) -> LossPair:
    """Return a pair on finitely many outcomes, all of them atoms; `ValueError` for not as many masses as losses.

    Args:
        losses: of each outcome; an infinite loss is allowed.
    """
    nowhere = lambda x: np.full_like(x, np.nan)  # noqa: E731
    finite = [abs(l) for l in losses if math.isfinite(l)]
    return LossPair(
        loss=nowhere,
        position=nowhere,
        log_density=nowhere,
        spans=(),
        bend=1.0,
        outside=0.0,
        spread=max(finite, default=1.0) or 1.0,
        atoms=tuple(zip(losses, masses, strict=True)),
    )
