"""The types of the fields of a report's classes, which encoder, decoder and schema of report.json all walk."""

from __future__ import annotations

import math
import types
import typing
from functools import cache
from typing import Any

from audit.core.events import Event
from reports.formats._mechanisms import WrittenForm

TAG = "type"
"""Key of the class name in an object of a union."""

INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}
"""Infinite numbers by their strings, which JSON has no numbers for."""


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
