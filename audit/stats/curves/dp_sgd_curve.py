"""The whole trade-off curve of DP-SGD: many steps of the Poisson-subsampled Gaussian mechanism.

Losses are discretised so that they dominate the true ones, so the curve can only allow too much and a test of
it can only reject too rarely.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import ArrayLike

from audit.stats.arrays import Array
from audit.stats.bounds import roots
from audit.stats.curves import pld, tradeoff
from audit.stats.curves.tradeoff import TradeoffCurve

DENSITIES = (64.0, 8.0, 1.0)  # grid points per standard deviation of one step's loss
LEAST_NOISE = 0.2  # the smallest noise multiplier that a search looks at


@functools.lru_cache(maxsize=512)
def sgd(noise_multiplier: float, sample_rate: float, steps: int) -> TradeoffCurve:
    """An upper curve of `steps` releases at this noise; members take part in each with chance `sample_rate`.

    `tpr` at a false positive rate is the largest chance to recognise runs with the record among runs without it; the
    curve is not symmetric. Equal to the GDP curve of `mu = sqrt(steps) / noise_multiplier` for `sample_rate` 1.

    References: Dong, Roth and Su 2019, arXiv 1905.02383; Zhu, Dong and Wang 2022, arXiv 2106.08567.
    """
    if steps == 0 or sample_rate == 0 or math.isinf(noise_multiplier):
        return tradeoff.epsilon_delta(0.0, 0.0)
    if sample_rate == 1:
        return tradeoff.gdp(math.sqrt(steps) / noise_multiplier)
    return _interpolate(*_corners(noise_multiplier, sample_rate, steps))


@functools.lru_cache(maxsize=512)
def symmetric_sgd(noise_multiplier: float, sample_rate: float, steps: int) -> TradeoffCurve:
    """The least symmetric curve above `sgd`: for tests that may use either direction, adding or removing."""
    if steps == 0 or sample_rate in (0, 1) or math.isinf(noise_multiplier):
        return sgd(noise_multiplier, sample_rate, steps)
    fpr, tpr = _corners(noise_multiplier, sample_rate, steps)
    return _interpolate(*_hull(np.append(fpr, 1 - tpr), np.append(tpr, 1 - fpr)))


def _corners(noise: float, rate: float, steps: int) -> tuple[Array, Array]:
    """Corners `(fpr, tpr)` of the curve, both ascending, up to (1, 1)."""
    _, member, nonmember = pld.subsampled_gaussian_losses(noise, rate, steps)
    tpr = np.minimum(np.append(0.0, np.cumsum(member[::-1])), 1.0)
    fpr = np.minimum(np.append(0.0, np.cumsum(nonmember[::-1])), 1.0)
    tpr[-1] = fpr[-1] = 1.0
    last = np.append(np.diff(fpr) > 0, True)  # of equal rates the point with the largest TPR
    return fpr[last], tpr[last]


def _hull(fpr: Array, tpr: Array) -> tuple[Array, Array]:
    """Corners of the least concave curve above the points."""
    order = np.lexsort((tpr, fpr))
    hull: list[tuple[float, float]] = []
    for x, y in zip(fpr[order].tolist(), tpr[order].tolist(), strict=True):
        while hull and hull[-1][0] == x:
            hull.pop()
        while len(hull) > 1 and _is_left_turn(hull[-2], hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    corners = np.array(hull)
    return corners[:, 0], np.minimum(corners[:, 1], 1.0)


def _is_left_turn(first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]) -> bool:
    """True if the middle point is on or below the line between the outer two."""
    return (second[0] - first[0]) * (third[1] - first[1]) >= (second[1] - first[1]) * (third[0] - first[0])


def _interpolate(fpr: Array, tpr: Array) -> TradeoffCurve:
    """The broken line through the corners: what randomised tests reach between them on a pair of finitely many losses."""

    def tpr_limit(rate: ArrayLike) -> Array:
        return np.asarray(np.interp(np.asarray(rate, dtype=np.float64), fpr, tpr))

    def mirror(rate: ArrayLike) -> Array:
        return np.asarray(np.interp(np.asarray(rate, dtype=np.float64), (1 - tpr)[::-1], (1 - fpr)[::-1]))

    return TradeoffCurve(tpr=tpr_limit, tnr=mirror)


@functools.lru_cache(maxsize=1024)
def epsilon_floor(noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> float:
    """Epsilon at `delta` of DP-SGD with this noise, from below; the worse of adding and removing a record.

    >>> round(epsilon_floor(2.0, 1.0, 4, 1e-5), 3)
    4.377
    """
    if math.isinf(noise_multiplier):
        return 0.0
    if sample_rate == 1:
        return tradeoff.gdp_epsilon(math.sqrt(steps) / noise_multiplier, delta)
    for density in DENSITIES[:-1]:  # a coarser grid is still from below; very little noise needs one to fit into memory
        try:
            return _floor(noise_multiplier, sample_rate, steps, delta, density)
        except MemoryError:
            continue
    return _floor(noise_multiplier, sample_rate, steps, delta, DENSITIES[-1])


@functools.lru_cache(maxsize=256)
def signal_of(epsilon: float, sample_rate: float, steps: int, delta: float) -> float:
    """The least inverse noise multiplier at which `epsilon_floor` exceeds `epsilon`, from above; infinite beyond `LEAST_NOISE`.

    >>> 0.4999 < signal_of(4.377, 1.0, 4, 1e-5) < 0.502
    True
    """

    def excess(signal: float) -> float:
        return epsilon_floor(1 / signal if signal > 0 else math.inf, sample_rate, steps, delta) - epsilon

    largest, precision = 1 / LEAST_NOISE, 5e-4
    within = roots.foresee(excess, resolution=precision)
    signal = roots.last_rejected(within, stride=0.5, largest=largest, resolution=precision)
    # past the upper end of the last bracket
    return math.inf if signal >= largest else signal + 1.01 * precision * max(1.0, signal)


def _floor(noise: float, rate: float, steps: int, delta: float, density: float) -> float:
    return pld.subsampled_gaussian_epsilon(noise, rate, steps, delta, side="lower", density=density)
