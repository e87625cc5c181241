"""What happens to the data, as a tree of values: the same one feeds the trainer and the accountant.

Leaves are releases, each of them about one unit of privacy; the other nodes sample, repeat or compose them. `dp_sgd` and
`sgd` build the trees of the two usual trainings.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.phrases import join_clauses, phrase

_NUMBERS = 3  # numbers of a long list in words
LARGEST_GROUP = 10**6  # accountants hold some numbers for each record

# whose contribution a release bounds: one record, or all records of one user, client or document
Unit = Literal["example", "user", "client", "document"]

# types of fields with the check that an event makes of them
Noise = Annotated[float, checks.noise]
Positive = Annotated[float, checks.positive]
NotNegative = Annotated[float, checks.nonnegative]
Probability = Annotated[float, checks.probability]
Count = Annotated[int, checks.count]
PositiveCount = Annotated[int, functools.partial(checks.count, minimum=1)]


class Event:
    """Something that was done with the data; an accountant states its cost."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Raise `ConfigError` for a value that the check of its field refuses."""
        kind: Any = type(self)
        for name, check in _checks(kind):
            check(getattr(self, name), name)

    def __str__(self) -> str:
        return words(self)


@functools.cache
def _checks(kind: Any) -> tuple[tuple[str, Callable[[Any, str], object]], ...]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple((name, check) for name, hint in hints.items() for check in getattr(hint, "__metadata__", ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEvent(Event):
    """A leaf of the tree. `unit`: whose contribution it bounds, called a record in what follows."""

    unit: Unit = "example"


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPrivate(ReleaseEvent):
    """A release that shows its input: no noise, no guarantee."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(ReleaseEvent):
    """One Gaussian release of a sum.

    Attributes:
        noise_multiplier: standard deviation over the l2 bound on one record's contribution; no unit. Under replace-one a
            record's change is twice its bound.
        clip_norm: that bound, in units of the sum; no accountant needs it, who executes the event does.
    """

    noise_multiplier: Noise
    clip_norm: Positive = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace(ReleaseEvent):
    """One Laplace release. `noise_multiplier`: scale over the l1 bound on one record's contribution (change twice that
    under replace-one)."""

    noise_multiplier: Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(ReleaseEvent):
    """A record's own category, or with probability `noise_parameter` one of `buckets` drawn uniformly.

    References:
        Warner 1965. Kairouz, Bonawitz, Ramage 2016, arXiv 1602.07387.
    """

    noise_parameter: Probability
    buckets: PositiveCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(ReleaseEvent):
    """The exponential mechanism at its usual scale, epsilon-DP for the adjacency at hand (bounded range epsilon).

    References:
        McSherry, Talwar 2007. Dong, Durfee, Rogers 2020, arXiv 1909.13830.
    """

    epsilon: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximateDp(ReleaseEvent):
    """Any mechanism known only to be (epsilon, delta)-DP for the adjacency at hand."""

    epsilon: NotNegative
    delta: Probability = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Concentrated(ReleaseEvent):
    """Any mechanism known only to be rho-zCDP for the adjacency at hand.

    References:
        Bun, Steinke 2016, arXiv 1605.02065.
    """

    rho: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampled(Event):
    """A mechanism that sees each record with probability `sample_rate`, independently."""

    mechanism: Event
    sample_rate: Probability


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledWithoutReplacement(Event):
    """A mechanism that sees `batch` of `population` records, drawn uniformly."""

    mechanism: Event
    population: int
    batch: int

    def __post_init__(self) -> None:
        if not 0 <= self.batch <= self.population or self.population < 1:
            raise ConfigError(f"a batch of {self.batch} from {self.population} records; expected 0 <= batch <= population >= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated(Event):
    """A mechanism run `count` times on the same data, each run possibly chosen after seeing those before."""

    mechanism: Event
    count: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed(Event):
    """Mechanisms run one after the other on the same data."""

    parts: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel(Event):
    """Mechanisms run on disjoint parts of the data, split by a rule that does not look at other records.

    One record reaches one part, so under add/remove and zero-out the costliest part is the cost of all.
    Replacing a record can touch two parts.

    References:
        McSherry 2009, "Privacy integrated queries".
    """

    parts: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped(Event):
    """A mechanism compared with `size` records that change together (group privacy)."""

    mechanism: Event
    size: PositiveCount

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        if self.size > LARGEST_GROUP:
            raise ConfigError(f"size is {self.size}, the records of a group; expected at most {LARGEST_GROUP:,}")


def dp_sgd(*, noise_multiplier: float, clip_norm: float, sample_rate: float, steps: int, unit: Unit = "example") -> Repeated:
    """Return the event of DP-SGD: `steps` times, a Poisson batch, clipped gradients, Gaussian noise on their sum.

    Args:
        noise_multiplier: noise standard deviation divided by the clip norm; no unit.
        clip_norm: l2 bound on one record's gradient over all parameters together.
        sample_rate: probability that a record takes part in a step.
        steps: number of noisy steps released.
        unit: of privacy; "client" is DP-FedAvg.

    References:
        Abadi et al. 2016, arXiv 1607.00133, Algorithm 1. McMahan et al. 2018, arXiv 1710.06963.

    >>> dp_sgd(noise_multiplier=1.0, clip_norm=0.5, sample_rate=0.01, steps=100).count
    100
    """
    checks.count(steps, "steps")
    step = Gaussian(noise_multiplier=noise_multiplier, clip_norm=clip_norm, unit=unit)
    return Repeated(mechanism=PoissonSampled(mechanism=step, sample_rate=sample_rate), count=steps)


def sgd(*, sample_rate: float, steps: int, unit: Unit = "example") -> Repeated:
    """Return the event of plain stochastic gradient training on Poisson batches: no clipping, no noise, no guarantee."""
    checks.count(steps, "steps")
    return Repeated(mechanism=PoissonSampled(mechanism=NonPrivate(unit=unit), sample_rate=sample_rate), count=steps)


def words(event: Event) -> str:
    """Return the event as a person would say it.

    >>> words(Repeated(mechanism=dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=1000), count=5))
    '5 times DP-SGD (noise 1, rate 0.01, 1,000 steps)'
    """
    match event:
        case Repeated(mechanism=PoissonSampled(mechanism=Gaussian() as leaf, sample_rate=rate), count=count):
            return _training(f"{leaf.noise_multiplier:g}", f"{rate:g}", f"{count:,}", leaf.unit)
        case Repeated(mechanism=PoissonSampled(mechanism=NonPrivate() as bare), count=count):
            return _plain_training(f"{count:,}", bare.unit)
        case Gaussian(noise_multiplier=noise) | Laplace(noise_multiplier=noise):
            return f"{type(event).__name__} release (noise {noise:g}{_about(event)})"
        case Repeated(mechanism=inner, count=count):
            return f"{count:,} times {words(inner)}"
        case Composed(parts=parts):
            return join_clauses([words(part) for part in parts], "{first}; then {rest}") or "nothing"
    values = ((field.name, getattr(event, field.name)) for field in fields(event) if field.name != "unit")  # type: ignore[arg-type]
    texts = (f"{name} {words(value) if isinstance(value, Event) else _short(value)}" for name, value in values)
    return f"{type(event).__name__} ({', '.join(texts)}{_about(event)})"


def _training(noise: str, rate: str, steps: str, unit: str) -> str:
    if unit == "example":
        return phrase("DP-SGD (noise {noise}, rate {rate}, {steps} steps)", noise=noise, rate=rate, steps=steps)
    return phrase(
        "DP-SGD (noise {noise}, rate {rate}, {steps} steps, about one {unit})", noise=noise, rate=rate, steps=steps, unit=unit
    )


def _plain_training(steps: str, unit: str) -> str:
    if unit == "example":
        return phrase("training without noise ({steps} steps)", steps=steps)
    return phrase("training without noise ({steps} steps, about one {unit})", steps=steps, unit=unit)


def _short(value: object) -> str:
    """Return a value as text, of many numbers the first ones.

    >>> _short((1.0, 0.5)), _short((1.0, 0.5, 0.375, 0.3125, 0.2734))
    ('(1, 0.5)', '(1, 0.5, 0.375, ... 5 in all)')
    """
    if not isinstance(value, tuple) or not all(isinstance(number, float) for number in value):
        return str(value)
    texts = ", ".join(f"{number:g}" for number in value[:_NUMBERS])
    return f"({texts})" if len(value) <= _NUMBERS else f"({texts}, ... {len(value)} in all)"


def _about(event: Event) -> str:
    return f", about one {event.unit}" if isinstance(event, ReleaseEvent) and event.unit != "example" else ""
