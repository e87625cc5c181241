"""The whole trade-off curve of DP-SGD: many steps of the Poisson-subsampled Gaussian mechanism.

Losses are discretised so that they dominate the true ones, so the curve can only allow too much and a test of
it can only reject too rarely.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import ArrayLike

from audit.stats import curves, pld, tradeoff
from audit.stats.arrays import Array
from audit.stats.curves import Curve

DENSITIES = (64.0, 8.0, 1.0)  # grid points per standard deviation of one step's loss
LEAST_NOISE = 0.2  # the smallest noise multiplier that a search looks at


@functools.lru_cache(maxsize=512)
def sgd(noise_multiplier: float, sample_rate: float, steps: int) -> Curve:
    """An upper curve of `steps` releases at this noise; members take part in each with chance `sample_rate`.

    `tpr` at a false positive rate is the largest chance to recognise runs with the record among runs without it; the
    curve is not symmetric. Equal to the GDP curve of `mu = sqrt(steps) / noise_multiplier` for `sample_rate` 1.

    References: Dong, Roth and Su 2019, arXiv 1905.02383; Zhu, Dong and Wang 2022, arXiv 2106.08567.
    """
    if steps == 0 or sample_rate == 0 or math.isinf(noise_multiplier):
        return curves.epsilon_delta(0.0, 0.0)
    if sample_rate == 1:
        return curves.gdp(math.sqrt(steps) / noise_multiplier)
    _, member, nonmember = pld.subsampled_gaussian_losses(noise_multiplier, sample_rate, steps)
    tpr = np.minimum(np.append(0.0, np.cumsum(member[::-1])), 1.0)
    fpr = np.minimum(np.append(0.0, np.cumsum(nonmember[::-1])), 1.0)
    tpr[-1] = fpr[-1] = 1.0
    last = np.append(np.diff(fpr) > 0, True)  # of equal rates the point with the largest TPR
    corners = fpr[last], tpr[last]

    def allowed(rate: ArrayLike) -> Array:
        return np.asarray(np.interp(np.asarray(rate, dtype=np.float64), *corners))

    def mirrored(rate: ArrayLike) -> Array:
        return np.asarray(np.interp(np.asarray(rate, dtype=np.float64), (1 - corners[1])[::-1], (1 - corners[0])[::-1]))

    return Curve(tpr=allowed, tnr=mirrored)


@functools.lru_cache(maxsize=1024)
def epsilon_floor(noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> float:
    """Epsilon at `delta` of DP-SGD with this noise, from below; the worse of adding and removing a record.

    >>> round(epsilon_floor(2.0, 1.0, 4, 1e-5), 3)
    4.377
    """
    if math.isinf(noise_multiplier):
        return 0.0
    if sample_rate == 1:
        return tradeoff.epsilon_of_gdp(math.sqrt(steps) / noise_multiplier, delta)
    for density in DENSITIES[:-1]:  # a coarser grid is still from below; very little noise needs one to fit into memory
        try:
            return _floor(noise_multiplier, sample_rate, steps, delta, density)
        except MemoryError:
            continue
    return _floor(noise_multiplier, sample_rate, steps, delta, DENSITIES[-1])


def _floor(noise: float, rate: float, steps: int, delta: float, density: float) -> float:
    return pld.subsampled_gaussian_epsilon(noise, rate, steps, delta, side="lower", density=density)
