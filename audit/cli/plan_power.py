"""The power part of `audit plan` on the screen and as a drawing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from audit.core.errors import OutputError
from audit.core.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from audit.core.plans import PowerRow


def draw(rows: Sequence[PowerRow], path: Path) -> None:
    """The rows as a drawing in a file, SVG or PNG by its name; `OutputError` if it cannot be written."""
    from reports.figures import commands

    try:
        write_whole(path, commands.draw_power(rows)[path.suffix[1:]], mode=0o666)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror}; choose another place") from error


def show(rows: Sequence[PowerRow], console: Any) -> None:
    """The rows as a table on the screen."""
    from rich.table import Table

    from audit.core.rounding import up
    from audit.experiment.plan.plan import NEEDED_DRAWS

    if not rows:
        console.print("power: no estimator of this plan is quick enough to simulate")
        return
    table = Table("mechanism", "game", "estimator", "claim", "caught from", "to catch", "scores needed", "hours")
    for row in rows:
        epsilon_text = "nothing" if math.isinf(row.epsilon) else f"{up(row.epsilon)}"
        claim = f"{up(row.claim)}" if row.claim > 0 else "any leakage"
        catch = "-" if row.violation is None else f"{up(row.violation)}"
        runs_text = "-" if row.violation is None else "over 200,000" if row.needed is None else f"{row.needed:,}"
        hours = "-" if row.needed_hours is None else f"{row.needed_hours:.2g}"
        table.add_row(row.mechanism, row.game, row.estimator, claim, epsilon_text, catch, runs_text, hours)
    console.print(table)
    console.print(
        f"caught from: the least true epsilon of a Gaussian mechanism that the best attack catches with {rows[0].power:.0%} "
        f"probability, to {_points(rows)} percentage points by {min(row.draws for row in rows)} simulated audits; "
        f"scores needed: to catch the violation in that share of {NEEDED_DRAWS} (canaries, or runs of one canary each)"
    )
    for row in rows:
        if row.runs_to_proof is not None:
            console.print(
                f"{row.mechanism}, {row.game}, {row.estimator}: at a true epsilon of {up(row.epsilon)} training "
                f"would stop after {_runs(row.runs_to_proof)} runs (median of simulated audits)"
            )


def _points(rows: Sequence[PowerRow]) -> int:
    """Return two standard errors of the least certain of the simulated chances, in percentage points."""
    return math.ceil(max(200 * math.sqrt(row.power * (1 - row.power) / row.draws) for row in rows))


def _runs(number: float) -> str:
    return "no fewer than all" if math.isinf(number) else f"about {number:.0f}"
