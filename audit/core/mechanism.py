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
        if not self.steps >= 0:  # also where it is NaN
            raise ConfigError(f"steps is {self.steps}; expected a count of at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPrivate:
    """Plain stochastic gradient training on Poisson batches: no clipping, no noise, no guarantee."""

    sample_rate: float
    steps: int

    def __post_init__(self) -> None:
        checks.probability(self.sample_rate, "sample_rate")
        if not self.steps >= 0:  # also where it is NaN
            raise ConfigError(f"steps is {self.steps}; expected a count of at least 0")


Mechanism = DpSgd | NonPrivate


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    """One Gaussian release. `noise_multiplier`: standard deviation over the l2 bound on one record's contribution.

    Under replace-one a record's change is twice its bound.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        checks.nonnegative(self.noise_multiplier, "noise_multiplier")


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace:
    """One Laplace release. `noise_multiplier`: scale over the l1 bound on one record's contribution (change twice that
    under replace-one)."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        checks.nonnegative(self.noise_multiplier, "noise_multiplier")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse:
    """A record's own category, or with probability `noise_parameter` one of `buckets` drawn uniformly.

    References:
        Warner 1965. Kairouz, Bonawitz, Ramage 2016, arXiv 1602.07387.
    """

    noise_parameter: float
    buckets: int

    def __post_init__(self) -> None:
        checks.probability(self.noise_parameter, "noise_parameter")
        if self.buckets < 1:
            raise ConfigError(f"buckets is {self.buckets}; expected at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """The exponential mechanism at its usual scale, epsilon-DP for the adjacency at hand (bounded range epsilon).

    References:
        McSherry, Talwar 2007. Dong, Durfee, Rogers 2020, arXiv 1909.13830.
    """

    epsilon: float

    def __post_init__(self) -> None:
        checks.nonnegative(self.epsilon, "epsilon")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximateDp:
    """Any mechanism known only to be (epsilon, delta)-DP for the adjacency at hand."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        checks.nonnegative(self.epsilon, "epsilon")
        checks.probability(self.delta, "delta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Concentrated:
    """Any mechanism known only to be rho-zCDP for the adjacency at hand.

    References:
        Bun, Steinke 2016, arXiv 1605.02065.
    """

    rho: float

    def __post_init__(self) -> None:
        checks.nonnegative(self.rho, "rho")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampled:
    """A mechanism that sees each record with probability `sample_rate`, independently."""

    mechanism: Event
    sample_rate: float

    def __post_init__(self) -> None:
        checks.probability(self.sample_rate, "sample_rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledWithoutReplacement:
    """A mechanism that sees `batch` of `population` records, drawn uniformly."""

    mechanism: Event
    population: int
    batch: int

    def __post_init__(self) -> None:
        if not 0 <= self.batch <= self.population or self.population < 1:
            raise ConfigError(f"a batch of {self.batch} from {self.population} records; expected 0 <= batch <= population >= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A mechanism run `count` times on the same data, each run possibly chosen after seeing those before."""

    mechanism: Event
    count: int

    def __post_init__(self) -> None:
        if not self.count >= 0:
            raise ConfigError(f"count is {self.count}; expected at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """Mechanisms run one after the other on the same data."""

    parts: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """Mechanisms run on disjoint parts of the data, split by a rule that does not look at other records.

    One record reaches one part, so under add/remove and zero-out the costliest part is the cost of all.
    Replacing a record can touch two parts.

    References:
        McSherry 2009, "Privacy integrated queries".
    """

    parts: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """A mechanism held against `size` records that change together (group privacy)."""

    mechanism: Event
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"size is {self.size}; expected at least 1")


Event = (
    Mechanism
    | Gaussian
    | Laplace
    | RandomizedResponse
    | Exponential
    | ApproximateDp
    | Concentrated
    | PoissonSampled
    | SampledWithoutReplacement
    | Repeated
    | Composed
    | Parallel
    | Grouped
)
"""What an accountant may be asked about; trainers execute a `Mechanism` only."""
