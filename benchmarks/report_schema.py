"""The published schema of report.json: `python benchmarks/report_schema.py docs/use/report-schema.json` writes it."""

import dataclasses
import json
import sys
import typing
from enum import StrEnum
from pathlib import Path
from typing import Any

from audit.core.access import Access
from audit.core.results import SCHEMA, AuditReport
from reports.formats import _messages
from reports.formats._schema import INFINITIES, TAG, field_types, is_optional, union_members


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of report.json.

    >>> schema()["properties"]["schema"]
    {'const': 'audit-report/2.0'}
    """
    definitions: dict[str, Any] = {}
    _describe(AuditReport, definitions)
    root = definitions.pop(AuditReport.__name__)
    root["properties"] |= {"schema": {"const": SCHEMA}, _messages.FIELD: _table()}
    root["required"] = sorted({*root["required"], _messages.FIELD})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA,
        "title": "Privacy audit report",
        "$comment": "The file is canonical: keys sorted, no white space, one final newline. An infinite number is the string "
        "Infinity or -Infinity; NaN never occurs. Fields may be added within version 2, each with a default.",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _table() -> dict[str, Any]:
    """The schema of the messages."""
    entry = {
        "type": "object",
        "properties": {
            "message": {"type": "string"},
            "values": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["message", "values"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "description": "Each English text of the report that was filled from a message: the message, and the values in place "
        "of the names in braces. A value may have its own entry.",
        "additionalProperties": entry,
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
