"""Sheets of costs for a report, made of the report's own data: the mechanisms that it claims something for."""

from __future__ import annotations

from dataclasses import replace

from audit.accounting import costs
from audit.accounting.subjects import named, usual
from audit.core.adjacency import Adjacency
from audit.core.costs import CostSheet, WhatIfRow
from audit.core.errors import ConfigError
from audit.core.event_changes import Quantity
from audit.core.event_reading import is_non_private
from audit.core.events import Event
from audit.core.results import AuditReport

DELTAS = costs.DELTAS[::2]
CHANGES: tuple[tuple[Quantity, str], ...] = (
    ("noise", "x0.8"),
    ("noise", "x1.25"),
    ("rate", "x0.5"),
    ("rate", "x2"),
    ("steps", "x0.5"),
    ("steps", "x2"),
)


def with_costs(report: AuditReport, *, course_only: bool = False) -> AuditReport:
    """Return the report with a sheet for each mechanism that a user claims an epsilon for; equal ones share theirs.

    It takes the time of some fifteen computations of each accountant for a mechanism: seconds to a minute. The claims and
    their course over the steps alone (`course_only`) take nine brackets, less than a second for a usual training.
    """
    trainings: dict[tuple[Event, Adjacency], list[str]] = {}
    for result in report.mechanisms:
        if result.mechanism is not None and result.claims and not is_non_private(result.mechanism):
            trainings.setdefault((result.mechanism, result.claims[0].adjacency), []).append(result.name)
    make = _course_sheet if course_only else _sheet
    return replace(report, costs=tuple(make(*key, report.delta, tuple(names)) for key, names in trainings.items()))


def _course_sheet(event: Event, adjacency: Adjacency, delta: float, trainings: tuple[str, ...]) -> CostSheet:
    subjects = list(named([name for name in usual(event) if name != "reference"]))  # the bracket has its figures
    return costs.sheet(event, delta=delta, adjacency=adjacency, subjects=subjects, deltas=(), trainings=trainings)


def _sheet(event: Event, adjacency: Adjacency, delta: float, trainings: tuple[str, ...]) -> CostSheet:
    subjects = list(named(usual(event)))
    variants: list[WhatIfRow] = []
    for quantity, value in CHANGES:
        try:
            variants += costs.what_if(event, {quantity: [value]}, delta=delta, adjacency=adjacency, subjects=subjects)
        except ConfigError:
            continue  # the event has no such quantity, or would leave its range: a rate above 1
    return costs.sheet(
        event,
        delta=delta,
        adjacency=adjacency,
        subjects=subjects,
        deltas=DELTAS,
        variants=variants,
        trainings=trainings,
    )
