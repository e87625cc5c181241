"""A report with what it records in English said in the language of the document; the report itself stays as it was written."""

import dataclasses
from typing import Any, TypeVar

from audit.core.claims import Claim, Estimate, Verdict
from audit.core.costs import CostLine, CostSheet, EpsilonRow
from audit.core.evaluation import Fidelity
from audit.core.game_results import GameResult, RocCurve
from audit.core.lower_bounds import BoundTrajectory, FamilyBound, FamilyTrajectory, LowerBound, VoidBound, VoidTrajectory
from audit.core.provenance import BudgetRelease, DataSummary
from audit.core.results import AuditReport, Check, Coverage, LimitCurve, Metric, Trajectory
from reports.words.language import current, recorded
from reports.words.report_cache import once_per_report

Value = TypeVar("Value")

# the fields that hold sentences and words of this package's, in English
TEXTS: dict[type, tuple[str, ...]] = {
    AuditReport: ("title", "model", "notes"),
    BoundTrajectory: ("label",),
    FamilyTrajectory: ("label",),
    VoidTrajectory: ("label",),
    FamilyBound: ("selected",),
    VoidBound: ("selected",),
    BudgetRelease: ("mechanism",),
    Check: ("item", "value"),
    Claim: ("source", "note", "unit"),
    CostLine: ("label",),
    CostSheet: ("mechanism", "doubt"),
    Coverage: ("attack_class", "done"),
    DataSummary: ("name", "source"),
    EpsilonRow: ("note",),
    Estimate: ("warning",),
    Fidelity: ("sentence",),
    GameResult: ("note",),
    LimitCurve: ("source",),
    LowerBound: ("selected",),
    Metric: ("name",),
    RocCurve: ("band",),
    Trajectory: ("accountant",),
    Verdict: ("reason",),
}


@once_per_report
def translated(report: AuditReport) -> AuditReport:
    """The report for the pages of the current language; the same object if nothing is to be translated."""
    return _walk(report) if current().recorded else report


def _walk(value: Value) -> Value:
    if isinstance(value, tuple):
        return type(value)(_walk(inner) for inner in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    texts = TEXTS.get(type(value), ())
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        new = _recorded(inner) if field.name in texts else _walk(inner)
        if new is not inner:  # parts without words stay the same objects: nearly all of a report
            fields[field.name] = new
    return dataclasses.replace(value, **fields) if fields else value


def _recorded(value: Any) -> Any:
    return tuple(recorded(text) for text in value) if isinstance(value, tuple) else recorded(value)
