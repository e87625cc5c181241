"""Releases that are deployed beside Gaussian and Laplace noise: on integers, of selections, of correlated noise.

What each of them costs is proved in `audit.accounting.accountants._procedures`, one function a kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import numpy as np

from audit.core import checks
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import Count, Event, NotNegative, Positive, PositiveCount, ReleaseEvent

Selection = Literal["gumbel", "exponential", "laplace"]
CheckedSelection = Annotated[Selection, lambda value, name: checks.choice(value, name, get_args(Selection))]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerNoise(ReleaseEvent):
    """Noise on an integer that one record changes by at most `sensitivity` (twice that under replace-one).

    Attributes:
        noise_multiplier: scale of the noise over the sensitivity.
        sensitivity: of the integer; at least 1.
    """

    noise_multiplier: Positive
    sensitivity: PositiveCount = 1

    @property
    def scale(self) -> float:
        return float(self.noise_multiplier) * int(self.sensitivity)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(IntegerNoise):
    """Discrete Gaussian noise; its scale is the parameter sigma.

    References:
        Canonne, Kamath, Steinke 2020, arXiv 2004.00010.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(IntegerNoise):
    """Discrete Laplace (two-sided geometric) noise, of mass falling by `exp(-1 / scale)` a unit.

    References:
        Ghosh, Roughgarden, Sundararajan 2009, arXiv 0811.2841.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Skellam(IntegerNoise):
    """The difference of two equal Poisson variables; its scale is the standard deviation.

    References:
        Agarwal, Kairouz, Liu 2021, arXiv 2110.04995.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMax(ReleaseEvent):
    """The name of the best candidate after noise at the usual scale: epsilon-DP for the adjacency at hand.

    Attributes:
        noise: "gumbel" (the exponential mechanism), "exponential" (permute-and-flip) or "laplace".

    References:
        McKenna, Sheldon 2020, arXiv 2010.12603 (permute-and-flip). Ding et al. 2021, arXiv 2105.07260.
    """

    epsilon: NotNegative
    noise: CheckedSelection = "gumbel"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector(ReleaseEvent):
    """Above-threshold tests until `positives` of them said yes: `threshold_epsilon` for the noisy threshold, and
    `query_epsilon` for all positive answers together (noise of a query at `2 positives / query_epsilon`).

    References:
        Lyu, Su, Li 2017, arXiv 1603.01699, Algorithm 7.
    """

    threshold_epsilon: NotNegative
    query_epsilon: NotNegative
    positives: PositiveCount = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixFactorization(ReleaseEvent):
    """DP-FTRL: Gaussian noise on `C x`, C being lower-triangular Toeplitz and x the clipped sums of `steps` batches.

    Attributes:
        noise_multiplier: standard deviation of the noise on `C x` over the clip norm.
        clip_norm: l2 bound on one record's gradient, for whoever executes the event; no accountant needs it.
        coefficients: first column of C, from the diagonal on; what is missing is 0 (a banded C).
        steps: number of batches.
        participations: the most batches that one record is part of.
        separation: the fewest batches from one of them to the next; for one participation it means nothing.

    References:
        Denisov et al. 2022, arXiv 2202.08312. Choquette-Choo et al. 2023, arXiv 2306.08153. Kalinin, Lampert 2024,
        arXiv 2405.13763.
    """

    noise_multiplier: NotNegative
    coefficients: tuple[float, ...]
    steps: Count
    participations: PositiveCount = 1
    separation: PositiveCount = 1
    clip_norm: Positive = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.coefficients, Sequence) or not self.coefficients:
            raise ConfigError(
                f"coefficients is {self.coefficients!r}; expected the first column of the encoder, a list of numbers"
            )
        object.__setattr__(self, "coefficients", tuple(float(value) for value in self.coefficients))
        for value in self.coefficients:
            checks.finite(value, "coefficients")
        Event.__post_init__(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeAggregation(ReleaseEvent):
    """DP-FTRL by a binary tree of partial sums: noise on every node, each record in one of `steps` leaves.

    References:
        Kairouz et al. 2021, arXiv 2103.00039. Dwork, Naor, Pitassi, Rothblum 2010.
    """

    noise_multiplier: NotNegative
    steps: PositiveCount

    @property
    def depth(self) -> int:
        """Nodes on the way from a leaf to the root of the largest tree."""
        return math.ceil(math.log2(self.steps + 1))


DEPLOYED = (DiscreteGaussian, DiscreteLaplace, Skellam, NoisyMax, SparseVector, MatrixFactorization, TreeAggregation)


def encoder_sensitivity(event: MatrixFactorization) -> float:
    """Return how far one record of clip norm 1 moves `C x`: the worst of the batches that it may be part of.

    For one participation it is the longest column. If columns of different participations do not meet (fewer bands than the
    separation) their squares add up. If coefficients are neither negative nor rising, the earliest batches and equal
    contributions are worst (Kalinin, Lampert 2024, Theorem 2).

    Raises:
        UnsupportedMechanism: no such theorem holds for the coefficients.
    """
    column = np.zeros(event.steps)
    bands = min(len(event.coefficients), event.steps)
    column[:bands] = event.coefficients[:bands]
    starts = range(0, event.steps, event.separation)[: event.participations]
    if len(starts) <= 1:
        return float(np.linalg.norm(column))
    if bands <= event.separation:
        return math.sqrt(sum(float(column[: event.steps - start] @ column[: event.steps - start]) for start in starts))
    if (np.diff(column) > 0).any() or (column < 0).any():
        raise UnsupportedMechanism(
            f"several participations {event.separation} batches apart, and {bands} bands that rise or are below 0: "
            "no sensitivity is proved here; use at most as many bands as the separation"
        )
    total = np.zeros(event.steps)
    for start in starts:
        total[start:] += column[: event.steps - start]
    return float(np.linalg.norm(total))
