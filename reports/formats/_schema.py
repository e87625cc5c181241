"""The types of the fields of a report's classes, which encoder, decoder and published schema of report.json all walk."""

import json
import math
import types
import typing
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from audit.core.errors import DataError
from audit.core.event_forms import decode, encode
from audit.core.event_reading import is_non_private, noisy_steps, sample_rate, shape, steps, unit
from audit.core.events import Event, PoissonSampled, Repeated, dp_sgd, sgd


# Mechanisms as report.json writes them: the two usual trainings flat, any other event as text and as the JSON of its tree.
@dataclass(frozen=True, slots=True, kw_only=True)
class DpSgd:
    """DP-SGD: Poisson batches, per-example l2 clipping, Gaussian noise on the sum."""

    noise_multiplier: float
    clip_norm: float
    sample_rate: float
    steps: int

    def event(self) -> Event:
        """Return what these fields describe."""
        return dp_sgd(**asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPrivate:
    """Plain stochastic gradient training on Poisson batches: no clipping, no noise, no guarantee."""

    sample_rate: float
    steps: int

    def event(self) -> Event:
        """Return what these fields describe."""
        return sgd(sample_rate=self.sample_rate, steps=self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherEvent:
    """Any other event: in words, and its tree as JSON text."""

    words: str
    tree: str

    def event(self) -> Event:
        """Return the event of the tree; `DataError` if the text is none."""
        try:
            tree = json.loads(self.tree)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the tree of an event is not JSON: {error}") from error
        if not isinstance(tree, dict):
            raise DataError(f"the tree of an event is a {type(tree).__name__}; expected an object")
        return decode(tree)


WrittenForm = DpSgd | NonPrivate | OtherEvent


def written_form(event: Event) -> WrittenForm:
    """Return the form in which report.json holds an event."""
    noisy, rate = noisy_steps(event), sample_rate(event)
    plain = shape(event)[:2] == (Repeated, PoissonSampled) and is_non_private(event)
    # the flat forms have no field for a unit, so any other unit is written as a tree
    if unit(event) == "example" and noisy is not None:
        return DpSgd(**asdict(noisy))
    if unit(event) == "example" and plain and rate is not None:
        return NonPrivate(sample_rate=rate, steps=steps(event))
    return OtherEvent(words=str(event), tree=json.dumps(encode(event), sort_keys=True))


TAG = "type"  # key of the class name in an object of a union

INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}  # infinite numbers by their strings, which JSON has no numbers for


@cache
def field_types(kind: type[Any]) -> dict[str, Any]:
    """Return the types of a class's fields; if it holds an event, those of the forms that files hold."""
    hints = typing.get_type_hints(kind)
    return {name: WrittenForm | None if Event in typing.get_args(hint) else hint for name, hint in hints.items()}


@cache
def union_members(kind: Any) -> tuple[Any, ...]:
    """The alternatives of a union, None left out; empty for anything else."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return tuple(arg for arg in typing.get_args(kind) if arg is not type(None))
    return ()


@cache
def is_optional(kind: Any) -> bool:
    return type(None) in typing.get_args(kind) and bool(union_members(kind))


def element_type(kind: Any, index: int) -> Any:
    arguments = typing.get_args(kind)
    return arguments[0] if arguments[-1] is Ellipsis else arguments[index]
