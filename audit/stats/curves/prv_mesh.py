"""The estimate of the PRV method by its own algorithm: losses rounded to a mesh, their mean kept, summed by one transform."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from audit.stats.arrays import Array

_TAIL, _STEP_TAIL = 14.0, 9.0  # deviations of the sum, and of the noise of one step, beyond which nothing is left
_NODES = 100_001
_MOST_CELLS = 1 << 22
_WIDTH = 0.05  # cells that one deviation of a step's loss has to cover


def estimates(
    parts: Sequence[tuple[float, float, int]], deltas: Sequence[float], *, error: float, delta_error: float
) -> list[float]:
    """Return the epsilon of a training at each delta that a mesh of this epsilon and delta error gives; `ArithmeticError` for
    losses so small that the mesh has one cell for them, or too many cells.

    Args:
        parts: noise multiplier, sample rate and number of steps of each part of the training.

    References: Gopi, Lee, Wutschitz 2021, arXiv 2106.02848, Algorithms 1 and 2.
    """
    count = sum(steps for _, _, steps in parts)
    mesh = error / math.sqrt(count / 2 * math.log(12 / delta_error))
    losses = [_moments(noise, rate) for noise, rate, _ in parts]
    steps = np.array([steps for *_, steps in parts], dtype=np.float64)
    means, deviations, widest = (np.array(column) for column in zip(*losses, strict=True))
    if (deviations < _WIDTH * mesh).any():
        raise ArithmeticError(f"losses of a step are {deviations.min():.2g} wide, the mesh is {mesh:.2g}")
    room = abs(float(steps @ means)) + _TAIL * math.sqrt(float(steps @ deviations**2)) + float(widest.max())
    cells = next_fast_len(2 * math.ceil(room / mesh) + 1, real=True)
    if cells > _MOST_CELLS:
        raise ArithmeticError(f"{cells:,} cells of a mesh of {mesh:.2g}; at most {_MOST_CELLS:,} are computed here")
    places = np.arange(cells) - cells // 2
    transform, shift = np.ones(cells // 2 + 1, dtype=np.complex128), 0.0
    for (noise, rate, times), mean in zip(parts, means, strict=True):
        masses = np.diff(_below((np.arange(cells + 1) - cells // 2 - 0.5) * mesh, noise, rate))
        masses /= masses.sum()
        # a cell moves each loss to its middle; what that adds to the mean is taken off again, or it would add up over the steps
        shift += times * (mean - mesh * float(masses @ places))
        transform *= rfft(np.roll(masses, -(cells // 2))) ** times
    sums = np.roll(irfft(transform, cells), cells // 2)
    return [_solve(sums, places * mesh + shift, delta) for delta in deltas]


def _moments(noise: float, rate: float) -> tuple[float, float, float]:
    """Mean, deviation and largest size of one step's loss under the training with the record."""
    outputs = np.linspace(-_TAIL * noise, 1 + _TAIL * noise, _NODES)
    weights = (1 - rate) * np.exp(-((outputs / noise) ** 2) / 2) + rate * np.exp(-(((outputs - 1) / noise) ** 2) / 2)
    weights /= weights.sum()
    losses = _loss(outputs, noise, rate)
    mean = float(weights @ losses)
    ends = _loss(np.array([-_STEP_TAIL * noise, 1 + _STEP_TAIL * noise]), noise, rate)
    return mean, math.sqrt(float(weights @ (losses - mean) ** 2)), float(abs(ends).max())


def _loss(outputs: Array, noise: float, rate: float) -> Array:
    exponent = (2 * outputs - 1) / (2 * noise**2)
    return exponent if rate == 1 else np.logaddexp(math.log1p(-rate), math.log(rate) + exponent)


def _below(losses: Array, noise: float, rate: float) -> Array:
    """Chance of a loss up to each of these."""
    if rate == 1:
        outputs = noise**2 * losses + 0.5
    else:
        ratio = np.expm1(np.minimum(losses, 700.0)) / rate + 1  # of the densities with and without the record
        outputs = np.where(ratio > 0, noise**2 * np.log(np.maximum(ratio, 1e-300)) + 0.5, -math.inf)
    return np.asarray((1 - rate) * ndtr(outputs / noise) + rate * ndtr((outputs - 1) / noise))


def _solve(masses: Array, losses: Array, delta: float) -> float:
    """Return the least epsilon at which the masses of losses beyond it leave delta."""
    positive = losses > 0
    masses, losses = masses[positive], losses[positive]
    low, high = 0.0, float(losses[-1])
    for _ in range(60):
        middle = (low + high) / 2
        first = int(np.searchsorted(losses, middle))
        excess = -float(masses[first:] @ np.expm1(middle - losses[first:]))
        low, high = (middle, high) if excess > delta else (low, middle)
    return (low + high) / 2
