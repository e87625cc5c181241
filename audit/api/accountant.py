"""What a mechanism costs, by several accountants side by side, and whether an accountant can be believed.

    audit.accountant.epsilon(audit.dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=1000), delta=1e-5)
    audit.accountant.epsilon("dp_sgd(1.0, 0.01, 1000) + 20 * Laplace(10)", delta=1e-5)
    audit.accountant.delta("history.json", epsilon=2.0)
    audit.accountant.noise(target_epsilon=2.0, sample_rate=0.01, steps=1000)
    audit.accountant.steps(target_epsilon=2.0, noise_multiplier=1.0, sample_rate=0.01)
    audit.accountant.curve("quickstart"), audit.accountant.what_if("quickstart", {"noise": ["x1", "x2"]})
    audit.accountant.check("my_package.accounting:MyAccountant")

`audit accountant` prints what these functions return. An accountant is named as there (a plug-in, `name,field=value`,
`module:object`), or is an object with a method `claim`. An event is an `Event`, or what `read_event` reads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from audit.accounting import costs
from audit.accounting.costs import DELTAS
from audit.accounting.subjects import USUAL, Names, bracket, named, side, usual
from audit.api.accountant_battery import Battery, CaseRow, check
from audit.api.accountant_budgets import noise, steps
from audit.api.accountant_rows import DeltaRow, Deltas, Epsilons, NoiseRow, StepsRow
from audit.api.event_sources import AnyEvent, read_event
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.costs import CurvePoint, EpsilonRow, WhatIfRow
from audit.core.errors import UnsupportedMechanism
from audit.core.event_changes import Quantity, grouped
from audit.core.events import Event
from audit.core.protocols import Accountant
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


__all__ = [
    "USUAL",
    "Battery",
    "CaseRow",
    "CurvePoint",
    "DeltaRow",
    "Deltas",
    "EpsilonRow",
    "Epsilons",
    "NoiseRow",
    "StepsRow",
    "WhatIfRow",
    "check",
    "curve",
    "delta",
    "epsilon",
    "noise",
    "read_event",
    "steps",
    "what_if",
]


def epsilon(
    event: AnyEvent,
    *,
    delta: float = 1e-5,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    group_size: int = 1,
    accountants: Names | None = None,
) -> Epsilons:
    """Return what a mechanism costs at `delta`, by each accountant, beside the proven bracket on the truth.

    Args:
        event: what is done with the data, such as `audit.dp_sgd(...)`, or anything that `read_event` reads.
        group_size: records that change together.
        accountants: None for the usual ones (`USUAL` for DP-SGD).

    Raises:
        ConfigError: no such event, accountant or adjacency, or a delta outside of [0, 1); at 0 it is pure differential privacy.

    >>> costs = epsilon("dp_sgd(1.0, 1.0, 1)", delta=1e-5, accountants=["rdp"])
    >>> costs.lower <= costs.upper <= costs.rows[0].epsilon
    True
    """
    if delta != 0:
        checks.open_probability(delta, "delta")
    mechanism, relation = grouped(read_event(event), group_size), Adjacency.by_name(adjacency)
    subjects = list(named(usual(mechanism, delta) if accountants is None else accountants))
    rows = costs.claims(mechanism, delta=delta, adjacency=relation, subjects=subjects)
    (lower, upper), doubt = bracket(mechanism, delta, relation)
    return Epsilons(rows=Table(rows), lower=lower, upper=upper, delta=delta, adjacency=relation, doubt=doubt)


def delta(
    event: AnyEvent,
    *,
    epsilon: float,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    group_size: int = 1,
    accountants: Names | None = None,
) -> Deltas:
    """The delta at which a mechanism costs `epsilon`, by each accountant, beside the proven bracket on the truth.

    An accountant's delta is the least at which its claim is at most `epsilon`, found by a search that ends on the safe side.

    Raises:
        ConfigError: no such event, accountant or adjacency, or an epsilon below 0.

    >>> costs = delta("Gaussian(1.0)", epsilon=4.377178, accountants=["rdp"])
    >>> costs.lower < 1.0001e-5 and costs.upper > 0.9999e-5 and costs.upper < costs.rows[0].delta
    True
    """
    from audit.accounting.calibration import delta_bracket

    checks.nonnegative(epsilon, "epsilon")
    mechanism, relation = grouped(read_event(event), group_size), Adjacency.by_name(adjacency)
    rows = []
    for name, accountant in named(usual(mechanism) if accountants is None else accountants):
        claimed_side = side(accountant)
        try:
            ends = delta_bracket(_epsilon_at(accountant, mechanism, relation), epsilon)
            value, note = ends[0] if claimed_side == "lower" else ends[1], ""
        except UnsupportedMechanism as error:
            value, note = None, f"unsupported: {error}"
        rows.append(DeltaRow(accountant=name, side=claimed_side, delta=value, note=note))
    _, doubt = bracket(mechanism, 1e-5, relation)
    lower, upper = 0.0, 1.0
    if not doubt:
        ends_at = functools.cache(lambda delta: bracket(mechanism, delta, relation)[0])
        lower = delta_bracket(lambda delta: ends_at(delta)[0], epsilon)[0]
        upper = delta_bracket(lambda delta: ends_at(delta)[1], epsilon)[1]
    return Deltas(rows=Table(rows), lower=lower, upper=upper, epsilon=epsilon, adjacency=relation, doubt=doubt)


def _epsilon_at(accountant: Accountant, mechanism: Event, relation: Adjacency) -> Callable[[float], float]:
    return lambda delta: accountant.claim(mechanism, delta=delta, adjacency=relation).epsilon
