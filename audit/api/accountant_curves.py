"""Whole privacy curves, and tables of what other noise, rates or steps would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from audit.api.accountant_rows import CurvePoint, WhatIfRow
from audit.api.accountant_subjects import Names, bracket, claimed, named, usual
from audit.api.event_sources import AnyEvent, read_event
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.core.event_changes import EventChange, Quantity, changed, grouped
from audit.core.tables import Table

MOST_ROWS = 1000
DELTAS = tuple(float(f"{delta:.3g}") for delta in np.geomspace(1e-10, 0.1, 19))


def curve(
    event: AnyEvent,
    *,
    deltas: Sequence[float] = DELTAS,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    group_size: int = 1,
    accountants: Names | None = None,
) -> Table[CurvePoint]:
    """The privacy curve of an event: at each delta the proven bracket on epsilon, and what each accountant claims.

    Raises:
        ConfigError: no such event, accountant or adjacency, or a delta outside of (0, 1).

    >>> points = curve("Gaussian(1.0)", deltas=[1e-6, 1e-3], accountants=["rdp"])
    >>> points[0].upper > points[1].upper, points[0].claims["rdp"] > points[0].lower
    (True, True)
    """
    mechanism, relation = grouped(read_event(event), group_size), Adjacency.by_name(adjacency)
    subjects = list(named(usual(mechanism) if accountants is None else accountants))
    points = []
    for delta in deltas:
        checks.open_probability(delta, "delta")
        (lower, upper), _ = bracket(mechanism, delta, relation)
        claims = {name: claimed(accountant, mechanism, delta, relation) for name, accountant in subjects}
        points.append(CurvePoint(delta=delta, lower=lower, upper=upper, claims=claims))
    return Table(points)


def what_if(
    event: AnyEvent,
    changes: Mapping[Quantity, Sequence[float | str]],
    *,
    delta: float = 1e-5,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    group_size: int = 1,
    accountants: Names | None = None,
) -> Table[WhatIfRow]:
    """Return what an event would cost with other noise, rates or steps: a row each combination.

    Args:
        changes: values by quantity ("noise", "rate", "steps"); a text such as "x2" is a factor on what the event has.

    Raises:
        ConfigError: a value or quantity that is none; more than 1000 rows.

    >>> rows = what_if("dp_sgd(1, 0.01, 100)", {"noise": [1, 2], "steps": ["x2"]}, accountants=[])
    >>> [row.changes for row in rows]
    [('noise 1', 'steps x2'), ('noise 2', 'steps x2')]
    """
    checks.open_probability(delta, "delta")
    mechanism, relation = read_event(event), Adjacency.by_name(adjacency)
    subjects = list(named(usual(mechanism) if accountants is None else accountants))
    lists = [[_change(quantity, value) for value in values] for quantity, values in changes.items()]
    count = int(np.prod([len(values) for values in lists], dtype=np.float64))
    if not 0 < count <= MOST_ROWS:
        raise ConfigError(f"these values make {count} rows; expected 1 to {MOST_ROWS}")
    rows = []
    for combination in product(*lists):
        variant = mechanism
        for change in combination:
            variant = changed(variant, change)
        variant = grouped(variant, group_size)
        (lower, upper), _ = bracket(variant, delta, relation)
        claims = {name: claimed(accountant, variant, delta, relation) for name, accountant in subjects}
        texts = tuple(f"{change.quantity} {'x' if change.is_factor else ''}{change.value:g}" for change in combination)
        rows.append(WhatIfRow(changes=texts, lower=lower, upper=upper, claims=claims))
    return Table(rows)


def _change(quantity: Quantity, value: float | str) -> EventChange:
    text = str(value)
    try:
        number = float(text.removeprefix("x"))
    except ValueError as error:
        raise ConfigError(f"{quantity} is '{text}'; expected a number, or a factor such as x2") from error
    return EventChange(quantity=quantity, value=number, is_factor=text.startswith("x"))
