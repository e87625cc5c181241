"""What a mechanism costs by several accountants beside the proven bracket: at a delta, along its curve, and changed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from audit.accounting.subjects import bracket, claimed, named, side, usual
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.costs import CostLine, CostSheet, CurvePoint, EpsilonRow, WhatIfRow
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_changes import EventChange, Quantity, changed, grouped
from audit.core.event_reading import is_non_private, repetition
from audit.core.events import Event, words
from audit.core.phrases import join_clauses, phrase
from audit.core.protocols import Accountant
from audit.core.results import AuditReport

MOST_ROWS = 1000
_ORDER = re.compile(r"best order ([0-9.e+]+)")  # in the note of a Renyi accountant
DELTAS = tuple(float(f"{delta:.3g}") for delta in np.geomspace(1e-10, 0.1, 19))
REPORT_DELTAS = DELTAS[::2]
_COURSE = tuple((place / 8) ** 2 for place in range(1, 9))  # of all steps: epsilon grows like their root
Subjects = Sequence[tuple[str, Accountant]]


def claims(event: Event, *, delta: float, adjacency: Adjacency, subjects: Subjects) -> list[EpsilonRow]:
    """Return what each accountant states of an event at `delta`; why not, if it does not cover it."""
    rows = []
    for name, accountant in subjects:
        try:
            claim = accountant.claim(event, delta=delta, adjacency=adjacency)
            cells: tuple[float | None, str, str] = (claim.epsilon, claim.source, claim.note)
        except UnsupportedMechanism as error:
            cells = (None, "", f"unsupported: {error}")
        except ConfigError as error:
            if delta != 0:
                raise
            cells = (None, "", f"unsupported: {error}")  # most methods have no figure of pure differential privacy
        value, source, note = cells
        rows.append(EpsilonRow(accountant=name, side=side(accountant), epsilon=value, source=source, note=note))
    return rows


def curve(event: Event, *, deltas: Sequence[float], adjacency: Adjacency, subjects: Subjects) -> list[CurvePoint]:
    """Return the privacy curve of an event at these deltas; `ConfigError` for a delta outside of (0, 1)."""
    points = []
    for delta in deltas:
        checks.open_probability(delta, "delta")
        (lower, upper), _ = bracket(event, delta, adjacency)
        values = {name: claimed(accountant, event, delta, adjacency) for name, accountant in subjects}
        points.append(CurvePoint(delta=delta, lower=lower, upper=upper, claims=values))
    return points


def what_if(
    event: Event,
    changes: Mapping[Quantity, Sequence[float | str]],
    *,
    delta: float,
    adjacency: Adjacency,
    subjects: Subjects,
    group_size: int = 1,
) -> list[WhatIfRow]:
    """Return what an event would cost with other noise, rates or steps: a row each combination; `ConfigError` for a value or
    quantity that is none, or more than 1000 rows.

    Args:
        changes: values by quantity; a text such as "x2" is a factor on what the event has.
    """
    lists = [[_change(quantity, value) for value in values] for quantity, values in changes.items()]
    count = int(np.prod([len(values) for values in lists], dtype=np.float64))
    if not 0 < count <= MOST_ROWS:
        raise ConfigError(f"these values make {count} rows; expected 1 to {MOST_ROWS}")
    rows = []
    for combination in product(*lists):
        variant = event
        for change in combination:
            variant = changed(variant, change)
        variant = grouped(variant, group_size)
        (lower, upper), _ = bracket(variant, delta, adjacency)
        values = {name: claimed(accountant, variant, delta, adjacency) for name, accountant in subjects}
        texts = tuple(_name(change) for change in combination)
        rows.append(WhatIfRow(changes=texts, lower=lower, upper=upper, claims=values))
    return rows


def _name(change: EventChange) -> str:
    value = f"{change.value:g}"
    if not change.is_factor:
        return f"{change.quantity} {value}"
    return phrase("{quantity} x{factor}", quantity=change.quantity, factor=value)


def _change(quantity: Quantity, value: float | str) -> EventChange:
    text = str(value)
    try:
        number = float(text.removeprefix("x"))
    except ValueError as error:
        raise ConfigError(f"{quantity} is '{text}'; expected a number, or a factor such as x2") from error
    return EventChange(quantity=quantity, value=number, is_factor=text.startswith("x"))


def sheet(
    event: Event,
    *,
    delta: float,
    adjacency: Adjacency,
    subjects: Subjects,
    deltas: Sequence[float] = DELTAS,
    variants: Sequence[WhatIfRow] = (),
    group_size: int = 1,
    trainings: tuple[str, ...] = (),
) -> CostSheet:
    """Return everything about what an event costs, for a page.

    Args:
        variants: rows of `what_if`, by the same accountants.
    """
    mechanism = grouped(event, group_size)
    (lower, upper), doubt = bracket(mechanism, delta, adjacency)
    points = curve(mechanism, deltas=deltas, adjacency=adjacency, subjects=subjects)
    steps, course = _course(mechanism, delta, adjacency, subjects)
    return CostSheet(
        trainings=trainings,
        mechanism=words(event),
        delta=delta,
        adjacency=adjacency,
        group_size=group_size,
        lower=lower,
        upper=upper,
        doubt=doubt,
        accountants=tuple(name for name, _ in subjects),
        claims=tuple(claims(mechanism, delta=delta, adjacency=adjacency, subjects=subjects)),
        deltas=tuple(deltas),
        curve=tuple(_line(f"{point.delta:g}", point) for point in points),
        what_if=tuple(_line(join_clauses(row.changes, "{first}, {rest}"), row) for row in variants),
        course_steps=steps,
        course=course,
    )


def _course(
    event: Event, delta: float, adjacency: Adjacency, subjects: Subjects
) -> tuple[tuple[int, ...], tuple[CostLine, ...]]:
    """Return some step counts of a repeated mechanism, and the costs after each with the order of the lowest Renyi claim."""
    training = repetition(event)
    if training is None or training.count < 1:
        return (), ()
    steps = tuple(sorted({math.ceil(training.count * share) for share in _COURSE}))
    lines = []
    for count in steps:
        part = replace(training, count=count)
        (lower, upper), _ = bracket(part, delta, adjacency)
        rows = claims(part, delta=delta, adjacency=adjacency, subjects=subjects)
        orders = [(row.epsilon or 0.0, match[1]) for row in rows if (match := _ORDER.search(row.note))]
        order = min(orders, default=(0.0, ""))[1]
        lines.append(CostLine(label=order, lower=lower, upper=upper, claims=tuple(row.epsilon for row in rows)))
    return steps, tuple(lines)


def _line(label: str, row: CurvePoint | WhatIfRow) -> CostLine:
    return CostLine(label=label, lower=row.lower, upper=row.upper, claims=tuple(row.claims.values()))


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
    return sheet(event, delta=delta, adjacency=adjacency, subjects=subjects, deltas=(), trainings=trainings)


def _sheet(event: Event, adjacency: Adjacency, delta: float, trainings: tuple[str, ...]) -> CostSheet:
    subjects = list(named(usual(event)))
    variants: list[WhatIfRow] = []
    for quantity, value in CHANGES:
        try:
            variants += what_if(event, {quantity: [value]}, delta=delta, adjacency=adjacency, subjects=subjects)
        except ConfigError:
            continue  # the event has no such quantity, or would leave its range: a rate above 1
    return sheet(
        event,
        delta=delta,
        adjacency=adjacency,
        subjects=subjects,
        deltas=REPORT_DELTAS,
        variants=variants,
        trainings=trainings,
    )
