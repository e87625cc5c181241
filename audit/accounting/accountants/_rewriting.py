"""Events rewritten into ones that have a proof: deployed ones by their rules, groups pushed down, parallel parts spread out."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations_with_replacement, product

from audit.accounting.accountants import _procedures
from audit.core.adjacency import Adjacency
from audit.core.deployed_events import IntegerNoise
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import nodes, rebuilt
from audit.core.events import (
    Composed,
    Concentrated,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    Laplace,
    NonPrivate,
    Parallel,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
)

_MOST_ALTERNATIVES = 64
COSTS, LIMITS, FLOORS = _procedures.COSTS, _procedures.LIMITS, _procedures.FLOORS


def known(event: Event, adjacency: Adjacency, *, limits: Mapping[type, _procedures.Rule] = LIMITS) -> Event:
    """Return the event with everything deployed expressed by what has a proof; `UnsupportedMechanism` if a rule does not hold
    here.

    Args:
        limits: rules for what has no cost of its own: from above (`LIMITS`), or from below (`FLOORS`).
    """
    _procedures.check_groups(event, adjacency)
    rules = {**COSTS, **limits}
    return rebuilt(event, lambda node: rules[type(node)](node, adjacency) if type(node) in rules else node)


def known_uncut(event: Event, adjacency: Adjacency) -> Event:
    """Return the event as `known` does, for accountants that have no delta to spend on batches that were cut;
    `UnsupportedMechanism` if some batch is cut with a positive chance, or as `known`.
    """
    if _procedures.slack(event) > 0:
        raise UnsupportedMechanism(
            f"{event}: batches that are cut have no divergence of their own; use the accountant 'reference'"
        )
    return known(event, adjacency)


def is_limit(event: Event) -> bool:
    """Return whether some part has a rule from above only."""
    return any(type(node) in LIMITS and FLOORS[type(node)](node, Adjacency.ADD_REMOVE) is node for node in nodes(event))


def alternatives(event: Event, adjacency: Adjacency) -> list[Event]:
    """Events without parallel parts, the costliest of which costs what `event` does; `UnsupportedMechanism` if replacing a
    record can touch two parts; or there are more than 64 ways.

    One record reaches one part of every parallel composition, so each way to pick parts is one alternative.
    """
    events = _alternatives(event, adjacency)
    if len(events) > _MOST_ALTERNATIVES:
        raise UnsupportedMechanism(f"{event} has {len(events)} ways through its parallel parts; at most {_MOST_ALTERNATIVES}")
    return events


def _alternatives(event: Event, adjacency: Adjacency) -> list[Event]:
    match event:
        case Parallel(parts=parts):
            if adjacency is Adjacency.REPLACE_ONE:
                raise UnsupportedMechanism("replacing a record can touch two parts of a parallel composition; use add_remove")
            return [way for part in parts for way in alternatives(part, adjacency)] or [Composed(parts=())]
        case Composed(parts=parts):
            variants = [alternatives(part, adjacency) for part in parts]
            if all(len(ways) == 1 for ways in variants):
                return [Composed(parts=tuple(ways[0] for ways in variants))]
            return [Composed(parts=way) for way in product(*variants)]
        case Repeated(mechanism=inner, count=count):
            ways = alternatives(inner, adjacency)
            if len(ways) == 1:
                return [Repeated(mechanism=ways[0], count=count)]
            if count > _MOST_ALTERNATIVES:
                raise UnsupportedMechanism(f"a parallel composition repeated {count} times; at most {_MOST_ALTERNATIVES}")
            return [Composed(parts=way) for way in combinations_with_replacement(ways, count)]
    return [event]


def without_groups(event: Event) -> Event:
    """The event with every group pushed down to mechanisms, and absorbed by those with a pair that only widens;
    `UnsupportedMechanism` if the group meets a mechanism for which no proof is implemented.

    What is left are groups of Poisson-sampled Gaussian and of approximately private mechanisms.
    """
    match event:
        case Grouped(mechanism=inner, size=size):
            return _spread(without_groups(inner), size)
        case Repeated(mechanism=inner, count=count):
            return Repeated(mechanism=without_groups(inner), count=count)
        case Composed(parts=parts):
            return Composed(parts=tuple(without_groups(part) for part in parts))
        case Parallel(parts=parts):
            return Parallel(parts=tuple(without_groups(part) for part in parts))
        case PoissonSampled(mechanism=Grouped()):
            raise UnsupportedMechanism(f"{event}: sampling a group as one has no proof here; group the sampled mechanism")
    return event


def _spread(event: Event, size: int) -> Event:  # noqa: PLR0911, PLR0912 (one arm a kind)
    if size == 1:
        return event
    match event:
        case Gaussian(noise_multiplier=noise):
            return Gaussian(noise_multiplier=noise / size)
        case Laplace(noise_multiplier=scale):
            return Laplace(noise_multiplier=scale / size)
        case Concentrated(rho=rho):
            return Concentrated(rho=rho * size**2)
        case IntegerNoise(noise_multiplier=noise, sensitivity=sensitivity):
            return replace(event, noise_multiplier=noise / size, sensitivity=sensitivity * size)
        case Exponential(epsilon=epsilon):
            return Exponential(epsilon=epsilon * size)
        case RandomizedResponse():  # every record answers for itself
            return Repeated(mechanism=event, count=size)
        case Repeated(mechanism=inner, count=count):
            return Repeated(mechanism=_spread(inner, size), count=count)
        case Composed(parts=parts):
            return Composed(parts=tuple(_spread(part, size) for part in parts))
        case NonPrivate():
            return event
        case PoissonSampled(mechanism=NonPrivate() as leaf, sample_rate=rate):  # seen if one of the group is sampled
            return PoissonSampled(mechanism=leaf, sample_rate=1 - (1 - rate) ** size)
        case PoissonSampled(mechanism=inner, sample_rate=1):
            return _spread(inner, size)
        case Grouped(mechanism=inner, size=inner_size):
            return _spread(inner, size * inner_size)
        case Parallel():
            raise UnsupportedMechanism("a group can reach several parts of a parallel composition; group the parts themselves")
    return Grouped(mechanism=event, size=size)
