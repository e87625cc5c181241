"""Noise added to a sum, and its exact privacy.

Every mechanism of this package is a function `(data, rng, size)` of a vector of query answers or of records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core import checks
from audit.core.data import Array
from audit.zoo._releases import GaussianSum, analytic_deviation, classic_deviation, inverted_deviation

__all__ = [
    "FloatLaplaceSum",
    "GaussianSum",
    "GeometricSum",
    "LaplaceSum",
    "RoundedSum",
    "SameSeedSum",
    "SmallSeedSum",
    "analytic_deviation",
    "classic_deviation",
    "inverted_deviation",
]


@dataclass(frozen=True, slots=True)
class LaplaceSum:
    """The sum of the data plus Laplace noise of a scale.

    References:
        Dwork, McSherry, Nissim, Smith 2006.
    """

    scale: float

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        return float(np.sum(data)) + rng.laplace(0.0, self.scale, size)

    def epsilon(self, sensitivity: float = 1.0) -> float:
        """The exact epsilon at delta 0, for sums that one record moves by `sensitivity`."""
        return sensitivity / self.scale


@dataclass(frozen=True, slots=True)
class GeometricSum:
    """The sum of whole numbers plus two-sided geometric noise, epsilon-DP for sums that a record moves by 1.

    References:
        Ghosh, Roughgarden, Sundararajan 2009.
    """

    claim: float

    def __post_init__(self) -> None:
        checks.positive(self.claim, "claim")

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        success = -math.expm1(-self.claim)
        return np.asarray(np.round(np.sum(data)) + rng.geometric(success, size) - rng.geometric(success, size))


@dataclass(frozen=True, slots=True)
class RoundedSum:
    """A Laplace sum rounded to whole numbers after the noise: rounding is a post-processing and costs nothing."""

    scale: float

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        return np.round(float(np.sum(data)) + rng.laplace(0.0, self.scale, size))

    def epsilon(self) -> float:
        """The exact epsilon for whole sums that a record moves by 1: the far cells have the ratio of the noise."""
        return 1.0 / self.scale


@dataclass(frozen=True, slots=True)
class SmallSeedSum:
    """A Laplace sum with noise of few values, as from a 16-bit seed: two data sets rarely share an output.

    Attributes:
        seeds: how many values the noise has.
    """

    scale: float
    seeds: int

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        uniform = (rng.integers(self.seeds, size=size) + 0.5) / self.seeds - 0.5
        noise = -self.scale * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
        return np.asarray(float(np.sum(data)) + noise)


@dataclass(frozen=True, slots=True)
class SameSeedSum:
    """A Laplace sum that makes its generator anew from one seed in every call: no noise."""

    scale: float

    def __call__(self, data: Any, rng: np.random.Generator) -> float:
        return float(np.sum(data)) + float(np.random.default_rng(7).laplace(0.0, self.scale))


@dataclass(frozen=True, slots=True)
class FloatLaplaceSum:
    """A Laplace sum in single precision, its noise by the inverse distribution function of a uniform on a grid of 2^-bits.

    References:
        Mironov 2012, "On significance of the least significant bits for differential privacy".
    """

    bits: int

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        return self.outputs(np.sum(data), rng.integers(1 << self.bits, size=size))

    def outputs(self, total: float, cells: Any) -> Array:
        """Return the outputs of some uniform variables, given as cells of the grid."""
        uniform = ((np.asarray(cells) + 0.5) / (1 << self.bits) - 0.5).astype(np.float32)
        noise = -np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
        return np.asarray(np.float32(total) + noise.astype(np.float32), np.float32)

    def delta(self, first: float, second: float) -> float:
        """The exact delta at any epsilon: the chance on `first` of an output that `second` never gives."""
        cells = np.arange(1 << self.bits)
        return float(1 - np.isin(self.outputs(first, cells), self.outputs(second, cells)).mean())
