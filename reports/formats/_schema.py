"""The published schema of report.json: `python -m reports.formats._schema docs/use/report-schema.json` writes it."""

import dataclasses
import json
import math
import sys
import types
import typing
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from audit.core.access import Access
from audit.core.errors import DataError
from audit.core.event_forms import decode, encode
from audit.core.event_reading import is_non_private, noisy_steps, sample_rate, shape, steps, unit
from audit.core.events import Event, PoissonSampled, Repeated, dp_sgd, sgd
from audit.core.results import SCHEMA, AuditReport


# The types of the fields of a report's classes, which encoder, decoder and schema of report.json all walk.
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
        return dp_sgd(
            noise_multiplier=self.noise_multiplier, clip_norm=self.clip_norm, sample_rate=self.sample_rate, steps=self.steps
        )


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
        """Return the event of the tree.

        Raises:
            DataError: the text is not an event.
        """
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
    if unit(event) == "example" and noisy is not None:
        return DpSgd(
            noise_multiplier=noisy.noise_multiplier, clip_norm=noisy.clip_norm, sample_rate=noisy.sample_rate, steps=noisy.steps
        )
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


def union_members(kind: Any) -> tuple[Any, ...]:
    """The alternatives of a union, None left out; empty for anything else."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return tuple(arg for arg in typing.get_args(kind) if arg is not type(None))
    return ()


def is_optional(kind: Any) -> bool:
    return type(None) in typing.get_args(kind) and bool(union_members(kind))


def element_type(kind: Any, index: int) -> Any:
    arguments = typing.get_args(kind)
    return arguments[0] if arguments[-1] is Ellipsis else arguments[index]


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of report.json.

    >>> schema()["properties"]["schema"]
    {'const': 'audit-report/1.1'}
    """
    definitions: dict[str, Any] = {}
    _describe(AuditReport, definitions)
    root = definitions.pop(AuditReport.__name__)
    root["properties"]["schema"] = {"const": SCHEMA}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA,
        "title": "Privacy audit report",
        "$comment": "The file is canonical: keys sorted, no white space, one final newline. An infinite number is the string "
        "Infinity or -Infinity; NaN never occurs. Fields may be added within version 1, each with a default.",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def schema_text() -> str:
    """The schema as it is published in docs/use/report-schema.json."""
    return json.dumps(schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _describe(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of one type; classes and enums go into `definitions` and are referred to."""
    members = union_members(kind)
    if members:
        options = [_describe(member, definitions) for member in members]
        if len(members) > 1:
            for member in members:
                definitions[member.__name__]["properties"][TAG] = {"const": member.__name__}
                definitions[member.__name__]["required"] = sorted({*definitions[member.__name__]["required"], TAG})
        return {"anyOf": [*options, {"type": "null"}]} if is_optional(kind) else {"anyOf": options}
    if dataclasses.is_dataclass(kind) and kind is not Access:
        return _describe_class(kind, definitions)
    if typing.get_origin(kind) is tuple:
        return _describe_tuple(kind, definitions)
    if isinstance(kind, type) and issubclass(kind, Access | StrEnum):
        values = {"enum": [member.value for member in kind]} if issubclass(kind, StrEnum) else {"type": "string"}
        definitions[kind.__name__] = {**values, "description": _summary(kind)}
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if typing.get_origin(kind) is typing.Literal:
        return {"enum": list(typing.get_args(kind))}
    plain = {"type": {int: "integer", str: "string", bool: "boolean", float: "number"}[kind]}
    return {"anyOf": [plain, {"enum": sorted(INFINITIES)}]} if kind is float else plain


def _describe_class(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}
        hints = field_types(kind)
        fields = dataclasses.fields(kind)
        definitions[kind.__name__].update(
            type="object",
            description=_summary(kind),
            additionalProperties=False,
            required=sorted(
                field.name
                for field in fields
                if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            ),
            properties={field.name: _describe(hints[field.name], definitions) for field in fields},
        )
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _describe_tuple(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    arguments = typing.get_args(kind)
    if arguments[-1] is Ellipsis:
        return {"type": "array", "items": _describe(arguments[0], definitions)}
    count = len(arguments)
    items = [_describe(argument, definitions) for argument in arguments]
    return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}


def _summary(kind: Any) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(schema_text(), encoding="utf-8")
