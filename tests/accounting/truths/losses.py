"""Privacy losses of one step as quadrature nodes and atoms: what moment generating functions are sums over.

Nothing here is rounded to a grid of losses, and nothing is read by the oracle's own code: events are taken apart anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

Array = NDArray[np.float64]
_FARTHEST = 38.0  # of a Gaussian, in standard deviations: beyond are 1e-315


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Losses:
    """Losses `log p / q` with the logarithm of their P-mass (quadrature weight included), the infinite one apart."""

    loss: Array
    log_mass: Array
    infinite: float = 0.0


def gaussian_mixture(noise: float, members: dict[float, float], nonmembers: dict[float, float], fineness: int) -> Losses:
    """P and Q as mixtures of normal distributions, each a mapping from mean to weight; trapezoids, so spectrally accurate."""
    width = noise * min(noise, 1.0) / (4.0 * fineness)
    means = [*members, *nonmembers]
    x = np.arange(min(means) - _FARTHEST * noise, max(means) + _FARTHEST * noise + width, width)
    loss, log_density = _against(x, noise, members, nonmembers)
    return Losses(loss=loss, log_mass=log_density + math.log(width))


def _against(x: Array, noise: float, members: dict[float, float], nonmembers: dict[float, float]) -> tuple[Array, Array]:
    """Losses and the logarithm of P's density; both densities are taken over one normal density, which costs no digits."""
    base = max(nonmembers, key=lambda mean: nonmembers[mean])
    log_p, log_q = _log_ratio(x, noise, base, members), _log_ratio(x, noise, base, nonmembers)
    return log_p - log_q, log_p - (x - base) ** 2 / (2 * noise**2) - math.log(noise * math.sqrt(2 * math.pi))


def _log_ratio(x: Array, noise: float, base: float, weights: dict[float, float]) -> Array:
    """Logarithm of a mixture's density over that of the normal distribution around `base`."""
    exponents = {mean: (mean - base) * (2 * x - mean - base) / (2 * noise**2) for mean in weights}
    rise = sum((weight * np.expm1(np.minimum(exponents[mean], 1.0)) for mean, weight in weights.items()), np.zeros(len(x)))
    steep = logsumexp([np.log(weight) + exponents[mean] for mean, weight in weights.items()], axis=0)
    flat = (np.max(list(exponents.values()), axis=0) < 1.0) & (rise > -0.5)
    return np.where(flat, np.log1p(np.maximum(rise, -0.5)), steep)


def sampled_laplace(scale: float, rate: float, direction: str, fineness: int) -> Losses:
    """Laplace noise about a record's 0 or 1, which takes part with probability `rate`: two atoms and what is between."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    pieces = np.linspace(0, 1, max(int(fineness / min(scale, 1.0)), fineness) + 1)
    half = np.diff(pieces)[:, None] / 2
    x, weight = (pieces[:-1, None] + half + half * nodes).ravel(), (half * weights).ravel()
    end = 1 / scale
    loss = np.concatenate([[-end, end], (2 * x - 1) / scale])
    log_absent = np.concatenate(
        [[-math.log(2), -end - math.log(2)], -x / scale - math.log(2 * scale) + np.log(weight)]
    )  # mass of an output below 0, above 1, and between, without the record
    log_unseen = math.log1p(-rate) if rate < 1 else -math.inf
    small = np.log1p(rate * np.expm1(np.minimum(loss, 1.0))) if rate < 1 else loss
    mixed = np.where(loss < 1, small, np.logaddexp(log_unseen, math.log(rate) + loss))
    if direction == "add":
        return Losses(loss=-mixed, log_mass=log_absent)
    return Losses(loss=mixed, log_mass=log_absent + mixed)


def discrete(masses: dict[float, float], infinite: float = 0.0) -> Losses:
    """Atoms, by loss."""
    return Losses(
        loss=np.array(list(masses)), log_mass=np.log(np.array(list(masses.values())) / (1 - infinite)), infinite=infinite
    )


def amplified(noise: float, rate: float, fineness: int) -> Losses:
    """What dominates a batch of fixed size under replace-one: the curve of Balle, Barthe and Gaboardi 2018, Theorem 9.

    Above zero loss it is that of a record which takes part with probability `rate` and moves the sum by 2; below, its mirror.
    """
    nodes, weights = np.polynomial.legendre.leggauss(16)
    ends = np.linspace(1.0, 2.0 + _FARTHEST * noise, 40 * fineness)  # the loss is zero at 1
    half = np.diff(ends)[:, None] / 2
    x, weight = (ends[:-1, None] + half + half * nodes).ravel(), (half * weights).ravel()
    loss, log_density = _against(x, noise, {2.0: rate, 0.0: 1 - rate}, {0.0: 1.0})
    above = log_density + np.log(weight)
    mirrored = above - loss
    remainder = 1 - float(np.exp(logsumexp(above)) + np.exp(logsumexp(mirrored)))
    return Losses(loss=np.concatenate([loss, -loss, [0.0]]), log_mass=np.concatenate([above, mirrored, [math.log(remainder)]]))


def binomial_weights(size: int, rate: float) -> dict[float, float]:
    """Weight of each number of records that take part, out of `size`."""
    log_rest = math.log1p(-rate) if rate < 1 else -math.inf
    weights = {}
    for observed in range(size + 1):
        log_choose = gammaln(size + 1) - gammaln(observed + 1) - gammaln(size - observed + 1)
        remainder = (size - observed) * log_rest if observed < size else 0.0
        weights[float(observed)] = float(np.exp(log_choose + observed * math.log(rate) + remainder))
    return weights
