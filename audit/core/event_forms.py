"""Events in other forms: JSON, and the vocabulary of a library that is handed in."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, get_args

import numpy as np

from audit.core.deployed_events import DEPLOYED
from audit.core.deployed_procedures import (
    AMPLIFIED,
    AMPLIFIED_NODES,
    PROCEDURE_NODES,
    PROCEDURES,
    MixtureOfGaussians,
    TruncatedPoisson,
    Tuned,
)
from audit.core.errors import DataError, UnsupportedMechanism
from audit.core.event_reading import is_non_private, parts, unit
from audit.core.events import (
    ApproximateDp,
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
    SampledWithoutReplacement,
    Unit,
    dp_sgd,
    sgd,
)

_NODES = (PoissonSampled, SampledWithoutReplacement, Repeated, Composed, Parallel, Grouped)
_LEAVES = (NonPrivate, Gaussian, Laplace, RandomizedResponse, Exponential, ApproximateDp, Concentrated)
_FURTHER = (*DEPLOYED, *PROCEDURES, *AMPLIFIED, *PROCEDURE_NODES, *AMPLIFIED_NODES)
# files write the two usual trainings as one flat object, as they always did, so that hashes over files stay
_FLAT: dict[str, Callable[..., Event]] = {"DpSgd": dp_sgd, "NonPrivate": sgd}
# fields of leaves that files name only where they are not this
_OMISSIONS: dict[str, Any] = {"unit": "example", "clip_norm": 1.0}
_LISTS = frozenset({"coefficients", "shifts", "probabilities", "decays", "weights"})  # fields that hold several numbers


def kinds_by_name() -> dict[str, type[Event]]:
    """Return every class of event that files can hold, by name."""
    return {kind.__name__: kind for kind in (*_LEAVES, *_NODES, *_FURTHER)}


def fold(event: Event, makers: Mapping[type, Callable[..., Any]]) -> Any:
    """Return `makers[type(event)](event, *folded children)`, from the leaves up; `UnsupportedMechanism` without a maker."""
    maker = makers.get(type(event))
    if maker is None:
        raise UnsupportedMechanism(f"{type(event).__name__} cannot be expressed in this library")
    children = (fold(part, makers) for part in parts(event))
    return maker(event, *children)


def dp_events(event: Event, library: ModuleType | Any) -> Any:
    """The event in the vocabulary of dp-accounting (its module is handed in); numbers as they are, without conversion."""

    def without(node: Event, inner: Any, build: Callable[[], Any]) -> Any:
        """Return what is shown as it is costs everything, however it is sampled: the library has no rate for it."""
        return inner if is_non_private(node) else build()

    makers: dict[type, Callable[..., Any]] = {
        NonPrivate: lambda leaf: library.NonPrivateDpEvent(),
        Gaussian: lambda leaf: library.GaussianDpEvent(leaf.noise_multiplier),
        Laplace: lambda leaf: library.LaplaceDpEvent(leaf.noise_multiplier),
        RandomizedResponse: lambda leaf: library.RandomizedResponseDpEvent(leaf.noise_parameter, leaf.buckets),
        Concentrated: lambda leaf: library.ZCDpEvent(leaf.rho),
        MixtureOfGaussians: lambda leaf: library.MixtureOfGaussiansDpEvent(
            leaf.noise_multiplier, leaf.shifts, leaf.probabilities
        ),
        TruncatedPoisson: lambda leaf: library.SelfComposedDpEvent(
            library.TruncatedSubsampledGaussianDpEvent(
                leaf.population, leaf.sample_rate, leaf.batch_limit, leaf.noise_multiplier
            ),
            leaf.steps,
        ),
        Tuned: lambda node, inner: library.dp_event.RepeatAndSelectDpEvent(inner, node.mean, node.shape),
        PoissonSampled: lambda node, inner: without(
            node, inner, lambda: library.PoissonSampledDpEvent(node.sample_rate, inner)
        ),
        SampledWithoutReplacement: lambda node, inner: library.SampledWithoutReplacementDpEvent(
            node.population, node.batch, inner
        ),
        Repeated: lambda node, inner: without(node, inner, lambda: library.SelfComposedDpEvent(inner, node.count)),
        Composed: lambda node, *inner: library.ComposedDpEvent(list(inner)),
    }
    if hasattr(library, "ExponentialMechanismDpEvent"):  # newer than 0.6.0
        makers[Exponential] = lambda leaf: library.ExponentialMechanismDpEvent(leaf.epsilon)
    unit(event)  # releases about different units do not add up
    return fold(event, makers)


def number(value: Any) -> Any:
    """A JSON value as the number that it represents: "nan", "inf" and "-inf" are strings, other types are tagged."""
    if isinstance(value, str):
        return float(value)
    if isinstance(value, Mapping) and "float32" in value:
        return np.float32(value["float32"])
    return value


def decode(tree: Mapping[str, Any], *, skip_validation: bool = False) -> Event:
    """Return the event that a JSON object describes; `skip_validation` leaves out its own validation.

    Raises:
        DataError: an unknown kind, or other fields than the kind has.
        ConfigError: a value that the kind refuses.

    >>> decode({"kind": "DpSgd", "noise_multiplier": 2.0, "clip_norm": 1.0, "sample_rate": 0.1, "steps": 5}).count
    5
    """
    if not isinstance(tree, Mapping):
        example = '{"kind": "Gaussian", "noise_multiplier": 2.0}'
        raise DataError(f"{tree!r:.300} is not an event; expected an object such as {example}")
    name, classes = tree.get("kind"), kinds_by_name()
    build = _FLAT[name] if name in _FLAT and "steps" in tree else classes.get(str(name))
    if build is None:
        raise DataError(f"an event of kind {name!r}; expected one of {', '.join(sorted({*classes, *_FLAT}))}")
    values = {key: _value(key, value, skip_validation) for key, value in tree.items() if key != "kind"}
    try:
        return _without_validation(build, values) if skip_validation else build(**values)
    except (TypeError, KeyError) as error:
        raise DataError(f"cannot read {dict(tree)!s:.300} as an event: {error}") from error


def _value(key: str, value: Any, skip_validation: bool) -> Any:
    if key == "mechanism":
        return decode(value, skip_validation=skip_validation)
    if key == "unit":
        if value not in get_args(Unit):
            raise DataError(f"an event about one {value!r}; expected one of {', '.join(get_args(Unit))}")
        return value
    if key in _LISTS:
        return value
    if key != "parts":
        return value if key == "noise" else number(value)
    if not isinstance(value, list | tuple):
        raise DataError(f"parts is {value!r}; expected a list of events")
    return tuple(decode(part, skip_validation=skip_validation) for part in value)


def _without_validation(build: Any, values: Mapping[str, Any]) -> Event:
    if build in (dp_sgd, sgd):
        own = {key: value for key, value in values.items() if key not in ("sample_rate", "steps")}
        leaf = _without_validation(Gaussian if build is dp_sgd else NonPrivate, own)
        step = _without_validation(PoissonSampled, {"mechanism": leaf, "sample_rate": values["sample_rate"]})
        return _without_validation(Repeated, {"mechanism": step, "count": values["steps"]})
    event: Event = object.__new__(build)
    for field in dataclasses.fields(build):
        default = {} if field.default is dataclasses.MISSING else {field.name: field.default}
        object.__setattr__(event, field.name, {**default, **values}[field.name])
    return event


def encode(event: Event) -> dict[str, Any]:
    """Return the JSON object of an event; `decode` gives an equal event back."""
    match event:
        case Repeated(mechanism=PoissonSampled(mechanism=Gaussian() as leaf, sample_rate=rate), count=count):
            flat = {"kind": "DpSgd", "noise_multiplier": plain(leaf.noise_multiplier), "clip_norm": plain(leaf.clip_norm)}
            return {**flat, "sample_rate": plain(rate), "steps": plain(count), **_units(leaf.unit)}
        case Repeated(mechanism=PoissonSampled(mechanism=NonPrivate() as bare, sample_rate=rate), count=count):
            return {"kind": "NonPrivate", "sample_rate": plain(rate), "steps": plain(count), **_units(bare.unit)}
    tree: dict[str, Any] = {"kind": type(event).__name__}
    for field in dataclasses.fields(event):  # type: ignore[arg-type]
        value = getattr(event, field.name)
        if field.name == "mechanism":
            tree[field.name] = encode(value)
        elif field.name == "parts":
            tree[field.name] = [encode(part) for part in value]
        elif isinstance(value, tuple):
            tree[field.name] = [plain(item) for item in value]
        elif field.name not in _OMISSIONS or value != _OMISSIONS[field.name]:
            tree[field.name] = plain(value)
    return tree


def _units(unit: str) -> dict[str, str]:
    return {} if unit == _OMISSIONS["unit"] else {"unit": unit}


def plain(value: Any) -> Any:
    """A number as JSON that `number` reads back as the same number of the same type."""
    if isinstance(value, np.float32):
        return {"float32": float(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
