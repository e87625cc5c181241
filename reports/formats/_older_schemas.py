"""Reads report.json of older schema versions: the plain objects as the current version writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from audit.core.results import SCHEMA

WITHOUT_TYPES = "audit-report/1.0"
READABLE = (WITHOUT_TYPES, SCHEMA)


def upgrade(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the object of a report as the current schema has it.

    Version 1.0 held every bound under one type, whatever it held for, and the courses of bounds without their family, which is
    that of the estimator behind them. What has another form than 1.0 had is left for the decoder to refuse.
    """
    if plain.get("schema") != WITHOUT_TYPES:
        return plain
    for result in _objects(plain.get("mechanisms")):
        _type_bounds(result)
    return {**plain, "schema": SCHEMA}


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
        estimator = str(curve.get("label")).rpartition(", ")[2].partition(" ")[0]
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
