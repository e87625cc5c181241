"""Events in other words: as a list of DP-SGD phases, or in the vocabulary of a library that is handed in."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, get_args

import numpy as np

from audit.core.errors import DataError, UnsupportedMechanism
from audit.core.mechanism import (
    Composed,
    Concentrated,
    DpSgd,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    NonPrivate,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
    SampledWithoutReplacement,
)

_KINDS: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}
Phase = tuple[float, float, int]
"""Noise multiplier, sample rate, steps: as given, without conversion."""


def phases(event: Event) -> tuple[Phase, ...]:
    """The event as phases of DP-SGD, in order.

    Raises:
        UnsupportedMechanism: it has another mechanism in it.

    >>> phases(Repeated(mechanism=PoissonSampled(mechanism=Gaussian(noise_multiplier=2.0), sample_rate=0.1), count=5))
    ((2.0, 0.1, 5),)
    """
    match event:
        case DpSgd(noise_multiplier=noise, sample_rate=rate, steps=steps):
            return ((noise, rate, steps),)
        case Gaussian(noise_multiplier=noise):
            return ((noise, 1.0, 1),)
        case PoissonSampled(mechanism=Gaussian(noise_multiplier=noise), sample_rate=rate):
            return ((noise, rate, 1),)
        case Repeated(mechanism=inner, count=count):
            found = phases(inner)
            if len(found) == 1:
                noise, rate, steps = found[0]
                return ((noise, rate, steps * count),)
            return found * count
        case Composed(parts=parts):
            return tuple(phase for part in parts for phase in phases(part))
    raise UnsupportedMechanism(f"{event} is not made of DP-SGD phases only, and this accountant knows nothing else")


def single_phase(event: Event) -> Phase:
    """The event as one phase of DP-SGD.

    Raises:
        UnsupportedMechanism: it is made of several, or of something else.
    """
    found = phases(event)
    if len(found) == 1:
        return found[0]
    raise UnsupportedMechanism(f"{event} has {len(found)} phases; this accountant takes exactly one")


def kinds(event: Event) -> frozenset[type]:
    """The classes of the event and of all its parts.

    >>> sorted(kind.__name__ for kind in kinds(Repeated(mechanism=Gaussian(noise_multiplier=2.0), count=3)))
    ['Gaussian', 'Repeated']
    """
    inside = (event.mechanism,) if hasattr(event, "mechanism") else getattr(event, "parts", ())
    return frozenset({type(event)}).union(*(kinds(part) for part in inside))


def fold(event: Event, makers: Mapping[type, Callable[..., Any]]) -> Any:
    """What `makers[type(event)](event, *folded children)` gives, from the leaves up.

    Raises:
        UnsupportedMechanism: there is no maker for some part.
    """
    maker = makers.get(type(event))
    if maker is None:
        raise UnsupportedMechanism(f"{type(event).__name__} cannot be expressed in this library")
    children: tuple[Any, ...] = ()
    if hasattr(event, "mechanism"):
        children = (fold(event.mechanism, makers),)
    elif hasattr(event, "parts"):
        children = tuple(fold(part, makers) for part in event.parts)
    return maker(event, *children)


def dp_events(event: Event, library: ModuleType | Any) -> Any:
    """The event in the vocabulary of dp-accounting, whose module is handed in; numbers as they are, without conversion."""

    def sampled(rate: float, noise: float) -> Any:
        return library.PoissonSampledDpEvent(rate, library.GaussianDpEvent(noise))

    makers: dict[type, Callable[..., Any]] = {
        NonPrivate: lambda one: library.NonPrivateDpEvent(),
        DpSgd: lambda one: library.SelfComposedDpEvent(sampled(one.sample_rate, one.noise_multiplier), one.steps),
        Gaussian: lambda one: library.GaussianDpEvent(one.noise_multiplier),
        Laplace: lambda one: library.LaplaceDpEvent(one.noise_multiplier),
        RandomizedResponse: lambda one: library.RandomizedResponseDpEvent(one.noise_parameter, one.buckets),
        Concentrated: lambda one: library.ZCDpEvent(one.rho),
        PoissonSampled: lambda one, inner: library.PoissonSampledDpEvent(one.sample_rate, inner),
        SampledWithoutReplacement: lambda one, inner: library.SampledWithoutReplacementDpEvent(
            one.population, one.batch, inner
        ),
        Repeated: lambda one, inner: library.SelfComposedDpEvent(inner, one.count),
        Composed: lambda one, *parts: library.ComposedDpEvent(list(parts)),
    }
    if hasattr(library, "ExponentialMechanismDpEvent"):  # newer than 0.6.0
        makers[Exponential] = lambda one: library.ExponentialMechanismDpEvent(one.epsilon)
    return fold(event, makers)


def words(event: Event) -> str:
    """The event as a person would say it.

    >>> words(Repeated(mechanism=DpSgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=1000), count=5))
    '5 times DP-SGD (noise 1, rate 0.01, 1,000 steps)'
    """
    match event:
        case DpSgd(noise_multiplier=noise, sample_rate=rate, steps=steps):
            return f"DP-SGD (noise {noise:g}, rate {rate:g}, {steps:,} steps)"
        case NonPrivate(steps=steps):
            return f"training without noise ({steps:,} steps)"
        case Gaussian(noise_multiplier=noise) | Laplace(noise_multiplier=noise):
            return f"{type(event).__name__} release (noise {noise:g})"
        case Repeated(mechanism=inner, count=count):
            return f"{count:,} times {words(inner)}"
        case Composed(parts=parts):
            return "; then ".join(words(part) for part in parts) or "nothing"
    values = ((one.name, getattr(event, one.name)) for one in dataclasses.fields(event))
    said = (f"{name} {words(value)}" if isinstance(value, Event) else f"{name} {value}" for name, value in values)
    return f"{type(event).__name__} ({', '.join(said)})"


def number(value: Any) -> Any:
    """A JSON value as the number that it stands for: "nan", "inf" and "-inf" are strings, other types are tagged."""
    if isinstance(value, str):
        return float(value)
    if isinstance(value, Mapping) and "float32" in value:
        return np.float32(value["float32"])
    return value


def decode(stored: Mapping[str, Any], *, unchecked: bool = False) -> Event:
    """The event that a JSON object describes; `unchecked` leaves out its own validation.

    >>> decode({"kind": "Gaussian", "noise_multiplier": 2.0})
    Gaussian(noise_multiplier=2.0)
    """
    if stored.get("kind") not in _KINDS:
        raise DataError(f"an event of kind {stored.get('kind')!r}; expected one of {', '.join(_KINDS)}")
    kind = _KINDS[stored["kind"]]
    values: dict[str, Any] = {}
    for name, value in stored.items():
        if name == "kind":
            continue
        if name == "mechanism":
            values[name] = decode(value, unchecked=unchecked)
        elif name == "parts":
            values[name] = tuple(decode(part, unchecked=unchecked) for part in value)
        else:
            values[name] = number(value)
    if not unchecked:
        try:
            built: Event = kind(**values)
        except TypeError as error:
            raise DataError(f"cannot read {dict(stored)} as an event: {error}") from error
        return built
    made: Event = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def encode(event: Any) -> dict[str, Any]:
    """The JSON object of an event; `decode` gives the event back."""
    stored: dict[str, Any] = {"kind": type(event).__name__}
    for one in dataclasses.fields(event):
        value = getattr(event, one.name)
        if one.name == "mechanism":
            stored[one.name] = encode(value)
        elif one.name == "parts":
            stored[one.name] = [encode(part) for part in value]
        else:
            stored[one.name] = plain(value)
    return stored


def plain(value: Any) -> Any:
    """A number as JSON that `number` reads back as the same number of the same type."""
    if isinstance(value, np.float32):
        return {"float32": float(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
