"""Whole privacy curves, and tables of what other noise, rates or steps would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from audit.accounting import costs
from audit.accounting.costs import DELTAS
from audit.accounting.subjects import Names, named, usual
from audit.api.event_sources import AnyEvent, read_event
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.costs import CurvePoint, WhatIfRow
from audit.core.event_changes import Quantity, grouped
from audit.core.tables import Table


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
    return Table(costs.curve(mechanism, deltas=deltas, adjacency=relation, subjects=subjects))


def what_if(
    event: AnyEvent,
    changes: Mapping[Quantity, Sequence[float | str]],
    *,
    delta: float = 1e-5,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    group_size: int = 1,
    accountants: Names | None = None,
) -> Table[WhatIfRow]:
    """Return what an event would cost with other noise, rates or steps: one row per combination.

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
    return Table(costs.what_if(mechanism, changes, delta=delta, adjacency=relation, subjects=subjects, group_size=group_size))
