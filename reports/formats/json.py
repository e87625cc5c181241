"""report.json: the whole report as canonical JSON, both ways; `_schema` has the types of its fields.

The classes of `audit.core` (`results`, `game_results`, `claims`, `evaluation`) are the only description of the format: encoder,
decoder and published schema all walk the same type hints. Conventions that JSON lacks:

- keys sorted, no white space, one final newline, so that equal reports are equal bytes;
- an infinite number is the string "Infinity" or "-Infinity"; NaN is refused;
- an object of a union carries its class name under "type".
"""

import dataclasses
import json
import math
import typing
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from audit.core.access import Access
from audit.core.errors import AuditError, DataError, OutputError
from audit.core.events import Event
from audit.core.results import SCHEMA, AuditReport
from audit.core.version import __version__
from reports.formats import _messages, _older_words, _schema
from reports.words.report_cache import once_per_report

# Reads report.json of older schema versions: the plain objects as the current version writes them.
WITHOUT_TYPES = "audit-report/1.0"
WITHOUT_MESSAGES = "audit-report/1.1"
READABLE = (WITHOUT_TYPES, WITHOUT_MESSAGES, SCHEMA)
_SAME_LENGTH = ("RocCurve", "LimitCurve", "Trajectory", "BoundTrajectory", "FamilyTrajectory", "VoidTrajectory")


def upgrade(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the object of a report as the current schema has it.

    Version 1.0 held every bound under one type, whatever it held for, and the courses of bounds without their family, which is
    that of the estimator behind them. What has another form than 1.0 had is left for the decoder to refuse. Version 1.1 held
    no messages.
    """
    version = plain.get("schema")
    if version == SCHEMA:
        return plain
    for result in _objects(plain.get("mechanisms")) if version == WITHOUT_TYPES else ():
        _type_bounds(result)
    return {**plain, _messages.FIELD: _older_words.messages(plain), "schema": SCHEMA}


def _type_bounds(result: dict[str, Any]) -> None:
    games = list(_objects(result.get("games")))
    sources = [source for game in games for source in (*_objects(game.get("attacks")), *_objects([game.get("watched")]))]
    void = result.get("outcome") == "invalid" or any(
        control.get("passed") is False for source in sources for control in _objects([source.get("control")])
    )
    rows = [bound for source in sources for bound in _objects(source.get("bounds"))]
    families = {bound.get("estimator"): bound.get("family") for bound in rows if bound.get("family")}
    verdict_bounds = [bound for verdict in _objects(result.get("verdicts")) for bound in _objects([verdict.get("bound")])]
    for bound in (*rows, *verdict_bounds):
        _type(bound, bound.get("family"), void)
    for curve in _objects(result.get("bound_trajectories")):
        estimator = str(curve.get("label")).rpartition(", ")[2].partition(" ")[0]  # labels are "scorer, estimator ..."
        family = families.get(estimator)
        if family is not None:
            curve["family"] = family
        _type(curve, family, void, ("BoundTrajectory", "FamilyTrajectory", "VoidTrajectory"))


def _type(
    row: dict[str, Any],
    family: str | None,
    void: bool,
    names: tuple[str, str, str] = ("LowerBound", "FamilyBound", "VoidBound"),
) -> None:
    """Write the type of a bound or a course of bounds into it, and its figures under the names of that type."""
    plain, inside, void_name = names
    row["type"] = void_name if void else inside if family else plain
    keys = {"epsilon": "void_epsilon", "ceiling": "void_ceiling"} if void else {}
    if family and not void:
        keys = {"epsilon": "epsilon_inside", "ceiling": "ceiling_inside"}
    for old, new in keys.items():
        if old in row:
            row[new] = row.pop(old)


def _objects(rows: Any) -> Iterator[dict[str, Any]]:
    return (row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else iter(())


FILE = "report.json"
NUMBERS = tuple[float, ...]
_MOST_DIGITS = 40  # of a whole number: counts and seeds of 128 bits


@once_per_report
def to_json(report: AuditReport) -> bytes:
    """The report as canonical bytes; `from_json` gives back an equal report. `OutputError` if a number is NaN."""
    plain = _encode(report, AuditReport, "report")
    plain[_messages.FIELD] = _messages.gather(plain)
    return _canonical(plain)


def without_messages(data: bytes) -> bytes:
    """The bytes of a report as version 1.1 wrote them: what identifies a report whatever version wrote it."""
    plain = {key: value for key, value in json.loads(data).items() if key != _messages.FIELD}
    return _canonical(plain | {"schema": WITHOUT_MESSAGES})


def _canonical(plain: dict[str, Any]) -> bytes:
    return (json.dumps(plain, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n").encode()


def from_json(data: bytes) -> AuditReport:
    """The report that `data` holds.

    Raises:
        DataError: not JSON, another schema version, an unknown or missing field, or a value of a wrong type.
    """
    try:
        # our own numbers: thousands of digits take Python quadratic time, and 1e999 would be read as infinite
        plain = json.loads(data, parse_constant=_refuse_number, parse_int=_whole, parse_float=_finite)
        json.dumps(plain, ensure_ascii=False).encode()  # a lone surrogate is no text
    except (ValueError, RecursionError) as error:
        raise DataError(f"{FILE} is not JSON ({error}); expected a report that `audit` wrote") from error
    if not isinstance(plain, dict):
        raise DataError(f"{FILE} holds a {type(plain).__name__}; expected an object with the fields of a report")
    if plain.get("schema") not in READABLE:
        versions = " and ".join(map(repr, READABLE))
        raise DataError(
            f"{FILE} has schema {plain.get('schema')!r}; this version reads {versions}: use the version of audit that wrote it"
        )
    try:
        current = upgrade(plain)
        phrases = _messages.read(current.get(_messages.FIELD))
        fields = {key: value for key, value in current.items() if key != _messages.FIELD}
        report: AuditReport = _decode(_messages.restore(fields, phrases), AuditReport, "report")
    except DataError as error:
        raise DataError(f"{error}. {_writer(plain)}") from error
    return report


def _writer(plain: Mapping[str, Any]) -> str:
    """Return by which version the report says it was written, and what to do with one that this version cannot read."""
    provenance = plain.get("provenance")
    keys = provenance if isinstance(provenance, dict) else {}
    version, commit = (keys.get(key) or "unknown" for key in ("version", "code_commit"))
    return (
        f"It says that audit {version}, commit {commit}, wrote it, and this is audit {__version__}: where nobody changed the "
        "file, read it with that version, or run the audit again"
    )


class Json:
    """Renders report.json."""

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The canonical bytes under the name report.json."""
        return {FILE: to_json(report)}


def _encode(value: Any, kind: Any, location: str) -> Any:
    members = _schema.union_members(kind)
    if len(members) == 1:
        kind = members[0]
    if isinstance(value, Event):
        value = _schema.written_form(value)
    if value is None or isinstance(value, bool | str):  # StrEnum is a str
        return value.value if isinstance(value, StrEnum) else value
    if isinstance(value, Access):
        return value.name
    if kind is float and isinstance(value, int | float):
        return _number(float(value), location)
    if kind is int and isinstance(value, int):
        return value
    if isinstance(value, tuple):
        if kind != NUMBERS or not all(type(number) is float and math.isfinite(number) for number in value):  # few of a report
            value = [_encode(element, _schema.element_type(kind, i), f"{location}[{i}]") for i, element in enumerate(value)]
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = _schema.field_types(type(value))
        names = [field.name for field in dataclasses.fields(value)]
        plain = {name: _encode(getattr(value, name), hints[name], f"{location}.{name}") for name in names}
        return plain | ({_schema.TAG: type(value).__name__} if len(members) > 1 else {})
    raise OutputError(f"{location} is {value!r:.60} ({type(value).__name__}); expected a {getattr(kind, '__name__', kind)}")


def _number(value: float, location: str) -> float | str:
    if math.isnan(value):
        raise OutputError(f"{location} is NaN; expected a number: NaN is an error where it is born, and no report may hold one")
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _refuse_number(text: str) -> float:
    raise ValueError(f"the number {text[:40]}")


def _whole(text: str) -> int:
    return int(text) if len(text) <= _MOST_DIGITS else int(_refuse_number(text))


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_number(text)


def _decode(value: Any, kind: Any, location: str) -> Any:
    if value is None and _schema.is_optional(kind):
        return None
    members = _schema.union_members(kind)
    if len(members) > 1:
        return _decode_tagged(value, members, location)
    if members:
        kind = members[0]
    if kind is Access:
        return Access.by_name(_scalar(value, str, location))
    if dataclasses.is_dataclass(kind):
        return _object(value, kind, location)
    if typing.get_origin(kind) is tuple:
        return _array(value, kind, location)
    return _scalar(value, kind, location)


def _decode_tagged(value: Any, members: tuple[Any, ...], location: str) -> Any:
    classes = {member.__name__: member for member in members}
    name = value.get(_schema.TAG) if isinstance(value, dict) else None
    if not isinstance(name, str) or name not in classes:
        raise DataError(f"{FILE}: {location} has {_schema.TAG} {name!r}; expected one of {', '.join(sorted(classes))}")
    instance = _object({key: item for key, item in value.items() if key != _schema.TAG}, classes[name], location)
    return instance.event() if isinstance(instance, _schema.WrittenForm) else instance


def _object(value: Any, kind: Any, location: str) -> Any:
    if not isinstance(value, dict):
        raise DataError(f"{FILE}: {location} is {value!r:.60}; expected an object ({kind.__name__})")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise DataError(f"{FILE}: {location} has the unknown field {unknown[0]!r}; {kind.__name__} has {', '.join(fields)}")
    mandatory = [
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    missing = [name for name in mandatory if name not in value]
    if missing:
        raise DataError(f"{FILE}: {location} lacks the field {missing[0]!r} of {kind.__name__}")
    hints = _schema.field_types(kind)
    axes = {name: item for name, item in value.items() if isinstance(item, list) and name != "stakes"}  # these are per attack
    lengths = {name: len(item) - (name == "edges") for name, item in axes.items()}
    if kind.__name__ in (*_SAME_LENGTH, "Histogram") and len(set(lengths.values())) > 1:
        raise DataError(
            f"{FILE}: {location} has {', '.join(f'{lengths[name]} {name}' for name in lengths)}; expected as many of each"
        )
    try:
        return kind(**{name: _decode(item, hints[name], f"{location}.{name}") for name, item in value.items()})
    except DataError:  # it names its own place already
        raise
    except AuditError as error:  # a value that the class itself refuses
        raise DataError(f"{FILE}: {location}: {error}") from error


def _array(value: Any, kind: Any, location: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise DataError(f"{FILE}: {location} is {value!r:.60}; expected an array")
    if kind == NUMBERS and all(type(number) is float for number in value):
        return tuple(value)
    arguments = typing.get_args(kind)
    if arguments[-1] is not Ellipsis and len(value) != len(arguments):
        raise DataError(f"{FILE}: {location} has {len(value)} entries; expected {len(arguments)}")
    return tuple(_decode(element, _schema.element_type(kind, i), f"{location}[{i}]") for i, element in enumerate(value))


def _scalar(value: Any, kind: Any, location: str) -> Any:
    if kind is float:
        if isinstance(value, str) and value in _schema.INFINITIES:
            return _schema.INFINITIES[value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif isinstance(kind, type) and issubclass(kind, StrEnum):
        if isinstance(value, str) and value in {member.value for member in kind}:
            return kind(value)
        raise DataError(f"{FILE}: {location} is {value!r:.60}; expected one of {', '.join(member.value for member in kind)}")
    elif typing.get_origin(kind) is typing.Literal:
        if isinstance(value, str) and value in typing.get_args(kind):
            return value
        raise DataError(f"{FILE}: {location} is {value!r:.60}; expected one of {', '.join(typing.get_args(kind))}")
    elif type(value) is kind or (kind is str and isinstance(value, str)):  # not isinstance: True is an int
        return value
    raise DataError(f"{FILE}: {location} is {value!r:.60}; expected a {getattr(kind, '__name__', kind)}")


PLUGIN = Json
