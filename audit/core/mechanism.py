"""What happens to the data, as values: the same one feeds the trainer and the accountant."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from audit.core import checks
from audit.core.errors import ConfigError


class Adjacency(StrEnum):
    """Which pairs of data sets a guarantee speaks about."""

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"
    ZERO_OUT = "zero_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class DpSgd:
    """DP-SGD: Poisson batches, per-example l2 clipping, Gaussian noise on the sum.

    Attributes:
        noise_multiplier: noise standard deviation divided by the clip norm; no unit.
        clip_norm: l2 bound on one example's gradient over all parameters together.
        sample_rate: probability that an example takes part in a step.
        steps: number of noisy steps released.

    References:
        Abadi et al. 2016, arXiv 1607.00133, Algorithm 1.
    """

    noise_multiplier: float
    clip_norm: float
    sample_rate: float
    steps: int

    def __post_init__(self) -> None:
        checks.nonnegative(self.noise_multiplier, "noise_multiplier")
        checks.positive(self.clip_norm, "clip_norm")
        checks.probability(self.sample_rate, "sample_rate")
        if self.steps < 0:
            raise ConfigError(f"steps is {self.steps}; expected a count of at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPrivate:
    """Plain stochastic gradient training on Poisson batches: no clipping, no noise, no guarantee."""

    sample_rate: float
    steps: int

    def __post_init__(self) -> None:
        checks.probability(self.sample_rate, "sample_rate")
        if self.steps < 0:
            raise ConfigError(f"steps is {self.steps}; expected a count of at least 0")


Mechanism = DpSgd | NonPrivate
