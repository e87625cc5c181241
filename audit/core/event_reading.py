"""What an event says to those who execute it or bound it: steps, sampling rate, noise, unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from audit.core import checks, events
from audit.core.deployed_events import MatrixFactorization
from audit.core.errors import ConfigError, UnsupportedMechanism

_SIZES = ("example", "document", "user", "client")  # units, the smaller first
Phase = tuple[float, float, int]  # noise multiplier, sample rate, steps: as given, without conversion


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisySteps:
    """Phases of DP-SGD read off an event: `steps` noisy sums of clipped gradients over Poisson batches.

    Attributes:
        noise_multiplier: noise standard deviation divided by the clip norm; no unit.
        clip_norm: l2 bound on one record's gradient.
        sample_rate: probability that a record takes part in a step.
    """

    noise_multiplier: float
    clip_norm: float
    sample_rate: float
    steps: int

    def __post_init__(self) -> None:
        checks.nonnegative(self.noise_multiplier, "noise_multiplier")
        checks.positive(self.clip_norm, "clip_norm")
        checks.probability(self.sample_rate, "sample_rate")
        if not self.steps >= 0:  # also if it is NaN
            raise ConfigError(f"steps is {self.steps}; expected a count of at least 0")


def parts(event: events.Event) -> tuple[events.Event, ...]:
    """Return the events right below this one, () for a leaf: its field `mechanism` or `parts`, of whatever kind it is."""
    if hasattr(event, "mechanism"):
        return (event.mechanism,)
    return tuple(getattr(event, "parts", ()))


def nodes(event: events.Event) -> Iterator[events.Event]:
    """Yield the event and all that is below it."""
    yield event
    for part in parts(event):
        yield from nodes(part)


def rebuilt(event: events.Event, edit: Callable[[events.Event], events.Event]) -> events.Event:
    """Return the event with `edit` applied to every node, from the leaves up.

    >>> rebuilt(events.Repeated(mechanism=events.Gaussian(noise_multiplier=2.0), count=3), lambda node: node)
    Repeated(mechanism=Gaussian(unit='example', noise_multiplier=2.0, clip_norm=1.0), count=3)
    """
    if hasattr(event, "mechanism"):
        event = replace(event, mechanism=rebuilt(event.mechanism, edit))  # type: ignore[type-var]
    elif hasattr(event, "parts"):
        event = replace(event, parts=tuple(rebuilt(part, edit) for part in event.parts))  # type: ignore[type-var]
    return edit(event)


def kinds(event: events.Event) -> frozenset[type]:
    """Return the classes of the event and of all its parts.

    >>> sorted(kind.__name__ for kind in kinds(events.Repeated(mechanism=events.Gaussian(noise_multiplier=2.0), count=3)))
    ['Gaussian', 'Repeated']
    """
    return frozenset(shape(event))


def shape(event: events.Event) -> tuple[type, ...]:
    """Return the classes of the event and of all that is below it, from the root down.

    >>> [kind.__name__ for kind in shape(events.Repeated(mechanism=events.Gaussian(noise_multiplier=2.0), count=3))]
    ['Repeated', 'Gaussian']
    """
    return tuple(type(node) for node in nodes(event))


def repetition(event: events.Event) -> events.Repeated | None:
    """Return the event if it repeats one mechanism; None for any other."""
    return event if isinstance(event, events.Repeated) else None


def releases(event: events.Event) -> Iterator[events.ReleaseEvent]:
    """Return the leaves of the tree, each once, however often it is repeated."""
    return (node for node in nodes(event) if isinstance(node, events.ReleaseEvent))


def runs(event: events.Event, count: int = 1) -> Iterator[tuple[events.Event, int]]:
    """Mechanisms of one step, sampled ones as they are, with how often they are run; none from inside groups or a split."""
    match event:
        case events.Repeated(mechanism=inner, count=times):
            yield from runs(inner, count * int(times))
        case events.Composed(parts=parts):
            for part in parts:
                yield from runs(part, count)
        case _:
            yield event, count


def unit(event: events.Event) -> events.Unit:
    """Return the unit of all releases, "example" if there is none; `UnsupportedMechanism` if they are about different units."""
    units = sorted({release.unit for release in releases(event)})
    if len(units) > 1:
        small, large = sorted(units, key=_SIZES.index)[:2]
        raise UnsupportedMechanism(
            f"the event mixes releases about one {' and one '.join(units)}, whose epsilons do not add up. Account for them "
            f"apart, or state the release about one {small} for a {large} with at most k of them: "
            f"Grouped(dp_sgd(noise, rate, steps, unit='{large}'), size=k), with the accountant reference"
        )
    return units[0] if units else "example"


def steps(event: events.Event) -> int:
    """Return how many releases the event makes, one after the other.

    >>> release = events.Gaussian(noise_multiplier=2.0)
    >>> steps(events.Composed(parts=(events.Repeated(mechanism=release, count=3), release)))
    4
    """
    match event:
        case events.Repeated(mechanism=inner, count=count):
            return count * steps(inner)
        case events.Composed():
            return sum(steps(part) for part in event.parts)
        case events.PoissonSampled() | events.SampledWithoutReplacement() | events.Grouped():
            return steps(event.mechanism)
        case MatrixFactorization():
            return event.steps
    return 1


def sample_rate(event: events.Event) -> float | None:
    """Return the chance of a record to take part in a release; None if it differs, or batches have a fixed size."""
    match event:
        case events.PoissonSampled():
            inner = sample_rate(event.mechanism)
            return None if inner is None else event.sample_rate * inner
        case events.SampledWithoutReplacement() | MatrixFactorization():
            return None
    rates = {sample_rate(part) for part in parts(event)} or {1.0}
    return rates.pop() if len(rates) == 1 else None


def is_non_private(event: events.Event) -> bool:
    """Return whether every release shows its input, so that there is nothing to account for."""
    leaves = list(releases(event))
    return bool(leaves) and {type(leaf) for leaf in leaves} == {events.NonPrivate}


def noisy_steps(event: events.Event | None) -> NoisySteps | None:
    """Return noise, clip norm, rate and steps of DP-SGD; None for any other event, and for None.

    >>> step = events.PoissonSampled(mechanism=events.Gaussian(noise_multiplier=2.0, clip_norm=0.5), sample_rate=0.1)
    >>> noisy_steps(events.Repeated(mechanism=step, count=5))
    NoisySteps(noise_multiplier=2.0, clip_norm=0.5, sample_rate=0.1, steps=5)
    """
    match event:
        case events.Repeated(
            mechanism=events.PoissonSampled(mechanism=events.Gaussian() as release, sample_rate=rate), count=count
        ):
            noise = release.noise_multiplier
            return NoisySteps(noise_multiplier=noise, clip_norm=release.clip_norm, sample_rate=rate, steps=count)
    return None


def sum_noise(event: events.Event) -> float | None:
    """Return the noise multiplier of an event that releases noisy sums of clipped gradients, step by step; None for any other.

    >>> sum_noise(MatrixFactorization(noise_multiplier=2.0, coefficients=(1.0, 0.5), steps=3))
    2.0
    """
    if isinstance(event, MatrixFactorization):
        return event.noise_multiplier
    noisy = noisy_steps(event)
    return None if noisy is None else noisy.noise_multiplier


def phases(event: events.Event) -> tuple[Phase, ...]:
    """Return the event as phases of DP-SGD, in order.

    Raises:
        UnsupportedMechanism: it has another mechanism in it.

    >>> step = events.PoissonSampled(mechanism=events.Gaussian(noise_multiplier=2.0), sample_rate=0.1)
    >>> phases(events.Repeated(mechanism=step, count=5))
    ((2.0, 0.1, 5),)
    """
    match event:
        case events.Gaussian(noise_multiplier=noise):
            return ((noise, 1.0, 1),)
        case events.PoissonSampled(mechanism=events.Gaussian(noise_multiplier=noise), sample_rate=rate):
            return ((noise, rate, 1),)
        case events.Repeated(mechanism=inner, count=count):
            parts = phases(inner)
            if len(parts) == 1:
                noise, rate, number = parts[0]
                return ((noise, rate, number * count),)
            return parts * count
        case events.Composed():
            unit(event)  # releases about different units do not add up
            return tuple(phase for part in event.parts for phase in phases(part))
    raise UnsupportedMechanism(f"{event} is not made of DP-SGD phases only, and this accountant knows nothing else")


def single_phase(event: events.Event) -> Phase:
    """Return the event as one phase of DP-SGD; `UnsupportedMechanism` if it is none."""
    parts = phases(event)
    if len(parts) == 1:
        return parts[0]
    raise UnsupportedMechanism(f"{event} has {len(parts)} phases; this accountant takes exactly one")


def first_steps(event: events.Event, count: int) -> events.Event:
    """Return what has been released after `count` of the event's releases; the whole event if it has no more.

    >>> first_steps(events.Repeated(mechanism=events.Gaussian(noise_multiplier=2.0), count=9), 3).count
    3
    """
    if count >= steps(event):
        return event
    match event:
        case events.Repeated(mechanism=inner):
            complete, remainder = divmod(count, steps(inner))
            full = events.Repeated(mechanism=inner, count=complete)
            return events.Composed(parts=(full, first_steps(inner, remainder))) if remainder else full
        case events.Composed():
            parts, step_count = [], 0
            for part in event.parts:
                if step_count < count:
                    parts.append(first_steps(part, count - step_count))
                step_count += steps(part)
            return events.Composed(parts=tuple(parts))
        case events.PoissonSampled() | events.SampledWithoutReplacement() | events.Grouped():
            return replace(event, mechanism=first_steps(event.mechanism, count))
        case MatrixFactorization():
            return replace(event, steps=count)
    return events.Composed(parts=())
