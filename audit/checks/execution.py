"""What was run, held against what was accounted for: every check of `audit/checks/executed`, and those of third parties."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from audit import plugins
from audit.core.data import Array
from audit.core.events import Event
from audit.core.protocols import ExecutionCheck
from audit.core.results import Check, Status
from audit.core.training import Executed


def check_executed(event: Event, executed: Executed, more: Sequence[ExecutionCheck] = ()) -> tuple[Check, ...]:
    """Return what the trainer measured of itself against the event that the accountants were given.

    Steps must agree exactly. The batch law is compared through the mean and the dispersion of realised
    batch sizes, the noise through its realised standard deviation, each within five standard errors.

    Args:
        more: checks of third parties, after this project's own.
    """
    if not executed.measured:
        value = "nothing was measured: models were trained by the user's own function"
        return (Check(code="execution", item="What was run", value=value, status=Status.GAP),)
    return tuple(row for check in (*_own(), *more) for row in check.check(event, executed))


@functools.lru_cache(maxsize=1)
def _own() -> tuple[ExecutionCheck, ...]:
    return tuple(check() for check in plugins.in_order(plugins.FOLDERS["checks"]).values())


def check_finite(diverged: Array) -> Check:
    """Return whether all models `(N,)` stayed finite; signals of one that did not tell an attack nothing."""
    count = int(np.sum(diverged))
    if not count:
        value = f"all {len(diverged)} models stayed finite"
        return Check(code="finite", item="Training", value=value, status=Status.CHECKED)
    named = ", ".join(str(model) for model in np.flatnonzero(diverged)[:8])
    value = f"{count} of {len(diverged)} models diverged ({named}); their outputs count as the same for every record"
    return Check(code="finite", item="Training", value=value, status=Status.GAP)
