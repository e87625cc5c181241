"""Whole procedures that are deployed: samplers of batches, adaptive clipping, tests before releases, answers of blocks.

What each of them costs is proved in `audit.accounting.accountants._procedures`, one function a kind.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.events import Count, Event, Noise, NotNegative, Positive, PositiveCount, Probability, ReleaseEvent


def _numbers(values: object, name: str) -> tuple[float, ...]:
    """The values as a tuple of finite numbers, or `ConfigError`."""
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise ConfigError(f"{name} is {values!r}; expected a list of numbers")
    return tuple(float(checks.finite(value, name)) for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureOfGaussians(ReleaseEvent):
    """A Gaussian release that a record moves by a random number of clip norms, the same one for all who look.

    Attributes:
        noise_multiplier: standard deviation over the clip norm; above 0.
        shifts: clip norms by which a record moves the sum, none below 0.
        probabilities: of the shifts; they add up to 1.

    References:
        Choquette-Choo, Ganesh, Steinke, Thakurta 2023, arXiv 2310.15526.
    """

    noise_multiplier: Annotated[Noise, checks.positive]
    shifts: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        for name in ("shifts", "probabilities"):
            object.__setattr__(self, name, _numbers(getattr(self, name), name))
        if len(self.shifts) != len(self.probabilities):
            raise ConfigError(f"{len(self.shifts)} shifts with {len(self.probabilities)} probabilities; expected one each")
        for value in self.shifts:
            checks.nonnegative(value, "shifts")
        for value in self.probabilities:
            checks.probability(value, "probabilities")
        if abs(math.fsum(self.probabilities) - 1) > 1e-12:  # decimal fractions such as 0.1 are not exact
            raise ConfigError(f"probabilities add up to {math.fsum(self.probabilities)!r}; expected 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedPoisson(ReleaseEvent):
    """DP-SGD with Poisson batches cut to at most `batch_limit` records.

    Attributes:
        sample_rate: probability that a record is drawn, before the cut.
        population: records of the larger of two neighbouring data sets.

    References:
        Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, arXiv 2411.04205.
    """

    noise_multiplier: Noise
    sample_rate: Probability
    steps: Count
    population: PositiveCount
    batch_limit: PositiveCount


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclicPoisson(ReleaseEvent):
    """Groups of records take turns, and each member of the group on turn enters the batch by its own coin.

    Attributes:
        noise_multiplier: standard deviation of the noise over the clip norm.
        sample_rate: of a record, in the steps of its group.
        groups: fixed beforehand by a rule that does not look at other records; step t is that of group `t mod groups`.
        coefficients: first column of a banded Toeplitz encoder of no more bands than groups; (1,) is DP-SGD.

    References:
        Choquette-Choo et al. 2023, arXiv 2306.08153, Theorem 4.
    """

    noise_multiplier: NotNegative
    sample_rate: Probability
    steps: Count
    groups: PositiveCount
    coefficients: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        object.__setattr__(self, "coefficients", _numbers(self.coefficients, "coefficients"))
        if len(self.coefficients) > self.groups:
            raise ConfigError(
                f"{len(self.coefficients)} bands over {self.groups} groups; expected at most as many bands as groups"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedToeplitz(ReleaseEvent):
    """DP-FTRL by a buffered linear Toeplitz encoder: coefficients 1, then `sum(weight * decay**(i - 1))` at distance i.

    Attributes:
        decays: of the buffers, each in [0, 1].
        weights: of the buffers, none below 0.
        steps, participations, separation: as of `MatrixFactorization`.

    References:
        McMahan, Xu, Zhang 2024, arXiv 2408.08868. Dvijotham et al. 2024, arXiv 2404.16706.
    """

    noise_multiplier: NotNegative
    decays: tuple[float, ...]
    weights: tuple[float, ...]
    steps: Count
    participations: PositiveCount = 1
    separation: PositiveCount = 1

    def __post_init__(self) -> None:
        for name in ("decays", "weights"):
            object.__setattr__(self, name, _numbers(getattr(self, name), name))
        if len(self.decays) != len(self.weights):
            raise ConfigError(f"{len(self.decays)} decays with {len(self.weights)} weights; expected one each a buffer")
        for value in self.decays:
            checks.probability(value, "decays")
        for value in self.weights:
            checks.nonnegative(value, "weights")
        Event.__post_init__(self)

    @property
    def coefficients(self) -> tuple[float, ...]:
        """First column of the encoder, one number a step."""
        buffers = list(zip(self.decays, self.weights, strict=True))
        later = (sum(weight * decay**distance for decay, weight in buffers) for distance in range(int(self.steps) - 1))
        return (1.0, *later)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveClipping(ReleaseEvent):
    """One step with a clip norm that follows a quantile: a noisy sum, and a noisy count of the norms below the clip norm.

    Attributes:
        noise_multiplier: of the sum, over the clip norm of the step.
        count_noise: standard deviation of the noise on the count of centred bits (-1/2 or 1/2); 0 shows it as it is.

    References:
        Andrew, Thakkar, McMahan, Ramaswamy 2021, arXiv 1905.03871.
    """

    noise_multiplier: Noise
    count_noise: Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeTestRelease(ReleaseEvent):
    """A test whether the data are far from any with a local sensitivity above a proposed bound; if so, a release.

    Attributes:
        test_epsilon: Laplace noise of scale `1 / test_epsilon` on the distance in records.
        release_epsilon: of the release, which is pure at the proposed bound.
        threshold: noisy distance above which the release is made; at least 0.

    References:
        Dwork, Lei 2009, "Differential privacy and robust statistics".
    """

    test_epsilon: Positive
    release_epsilon: NotNegative
    threshold: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsampleAggregate(Event):
    """A release computed from the answers of disjoint blocks of records, each answer replaced at will by a record of its block.

    Attributes:
        mechanism: the release of the aggregate, its noise over the bound on the answer of one block. A Gaussian, Laplace or
            integer release therefore moves by twice the bound, whatever happens to the record; other kinds are stated for one
            block's answer replaced.
        blocks: the most blocks that one record is part of; a record that is replaced stays in its blocks.

    References:
        Nissim, Raskhodnikova, Smith 2007, "Smooth sensitivity and sampling in private data analysis".
    """

    mechanism: Event
    blocks: PositiveCount = 1


PROCEDURES: tuple[type[Event], ...] = (
    MixtureOfGaussians,
    TruncatedPoisson,
    CyclicPoisson,
    BufferedToeplitz,
    AdaptiveClipping,
    ProposeTestRelease,
)
PROCEDURE_NODES: tuple[type[Event], ...] = (SubsampleAggregate,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomAllocation(ReleaseEvent):
    """Gaussian releases, one a step, of which a record takes part in exactly one, drawn uniformly (balls in bins).

    An epoch; `Repeated` draws anew in each. If the same place serves in each of E epochs, it is one epoch with the noise
    over `sqrt(E)`.

    Attributes:
        noise_multiplier: standard deviation over the clip norm.
        steps: places, at least 1.

    References:
        Chua et al. 2024, arXiv 2412.16802. Feldman, Shenfeld 2025, arXiv 2502.08202.
    """

    noise_multiplier: Noise
    steps: PositiveCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled(Event):
    """Answers of `records` records, each to the same local randomiser, in random order.

    Attributes:
        mechanism: the randomiser: `RandomizedResponse`, or `ApproximateDp` without delta for any that is pure.

    References:
        Erlingsson et al. 2019, arXiv 1811.12469. Feldman, McMillan, Talwar 2022, arXiv 2208.04591.
    """

    mechanism: Event
    records: PositiveCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned(Event):
    """The best of a random number of runs, as when hyper-parameters are tuned on the private data.

    Attributes:
        mechanism: one run, its score included.
        mean: expected number of runs.
        shape: of the truncated negative binomial law of that number, above -1 (0: logarithmic, 1: geometric, as in Liu and
            Talwar 2019); infinite for a Poisson law.

    References:
        Liu, Talwar 2019, arXiv 1811.07971. Papernot, Steinke 2022, arXiv 2110.03620.
    """

    mechanism: Event
    mean: Positive
    shape: float = 1.0

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        if not self.shape > -1:
            raise ConfigError(f"shape is {self.shape}; expected a number above -1, or infinity for a Poisson number of runs")
        if math.isfinite(self.shape) and self.mean < 1:
            raise ConfigError(f"mean is {self.mean}; expected at least 1 run, or shape infinity (Poisson)")


AMPLIFIED: tuple[type[Event], ...] = (RandomAllocation,)
AMPLIFIED_NODES: tuple[type[Event], ...] = (Shuffled, Tuned)
