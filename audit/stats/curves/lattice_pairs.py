"""Pairs of integer noise and its shift: finitely many losses, each with its mass, up to a tail that is counted apart.

The noises here are log-concave, so the larger of two shifts is the worse one, and the loss is monotone in the outcome.
"""

import dataclasses
import math

import numpy as np
from scipy.special import ive, logsumexp

from audit.stats.arrays import Array
from audit.stats.curves.loss_pairs import LossPair, finite_pair, mass_outside

MOST_OUTCOMES = 20_000


def discrete_gaussian(scale: float, shift: int, *, log_tail: float = -70.0) -> LossPair:
    """Return the pair of discrete Gaussian noise of parameter `scale` and the same moved by `shift`; `MemoryError` for more
    than 20,000 outcomes.
    """
    reach = math.ceil(scale * math.sqrt(-2 * log_tail)) + 1
    x = _outcomes(-reach, shift + reach)
    log_mass = -((x - shift) ** 2) / (2 * scale**2)
    return _pair((2 * x - shift) * shift / (2 * scale**2), log_mass - float(logsumexp(log_mass)), log_tail)


def discrete_laplace(scale: float, shift: int) -> LossPair:
    """Return the pair of discrete Laplace noise, falling by `exp(-1 / scale)` a unit, and the same moved by `shift`; exact.
    Raises `MemoryError` for a shift above 20,000.
    """
    fall = math.exp(-1 / scale)
    x = _outcomes(1, shift - 1) if shift > 1 else np.empty(0)
    middle = (1 - fall) / (1 + fall) * np.exp((x - shift) / scale)
    masses = [math.exp(-shift / scale) / (1 + fall), *middle.tolist(), 1 / (1 + fall)]
    losses = [-shift / scale, *((2 * x - shift) / scale).tolist(), shift / scale]
    return finite_pair(tuple(losses), tuple(masses))


def skellam(deviation: float, shift: int, *, log_tail: float = -70.0) -> LossPair:
    """Return the pair of Skellam noise of this standard deviation and the same moved by `shift`; `MemoryError` for more than
    20,000 outcomes.
    """
    variance = deviation**2
    rate = -log_tail  # Bernstein: beyond t the mass is at most exp(-t^2 / (2 (variance + t / 3))) on either side
    reach = math.ceil(rate / 3 + math.sqrt((rate / 3) ** 2 + 2 * rate * variance)) + 1
    x = _outcomes(-reach, shift + reach)
    with np.errstate(divide="ignore", invalid="ignore"):
        # ive(k, v) is exp(-v) I_k(v): the mass itself, of which neither factor fits into doubles if v is large
        log_member, log_absent = (np.log(ive(np.abs(x - move), variance)) for move in (shift, 0))
    positive = np.isfinite(log_member) & np.isfinite(log_absent)
    return _pair((log_member - log_absent)[positive], log_member[positive], log_tail)


def _outcomes(first: int, last: int) -> Array:
    if last - first >= MOST_OUTCOMES:
        raise MemoryError(f"{last - first + 1} outcomes of integer noise; at most {MOST_OUTCOMES} are added up here")
    return np.arange(first, last + 1, dtype=np.float64)


def _pair(losses: Array, log_mass: Array, log_tail: float) -> LossPair:
    masses = np.exp(log_mass)
    pair = finite_pair(tuple(losses.tolist()), tuple(masses.tolist()))
    centre = float(masses @ losses)
    spread = math.sqrt(float(masses @ (losses - centre) ** 2))
    return dataclasses.replace(pair, outside=mass_outside(log_tail), spread=spread or 1.0)
