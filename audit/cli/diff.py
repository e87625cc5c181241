"""`audit diff`: compare two audits."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from audit.cli.printing import AsJson, print_result
from audit.cli.report_files import load

REGRESSION = 1


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The earlier run folder, report.json or report.pdf.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The later run folder, report.json or report.pdf.")],
    as_json: AsJson = False,
) -> int:
    """Compare two audits: what got worse, is missing or differs. Exit code 1 on a regression, else that of the new audit."""
    from audit.experiment.line import judge
    from reports import diff as comparison

    before, after = load(old), load(new)
    changes = comparison.changes(before, after)
    rows = [asdict(change) | {"weight": change.weight.value} for change in changes]
    lines = [f"{row['weight']:<6} {row['subject'] + ': ' if row['subject'] else ''}{row['text']}" for row in rows]
    lines.append(f"{before.id} to {after.id}: {len(rows)} difference{'' if len(rows) == 1 else 's'}")
    print_result(as_json, {"old": before.id, "new": after.id, "changes": rows}, *lines)
    if comparison.is_worse(changes):
        return REGRESSION
    return judge.exit_code(after.outcome, all(gate.met for gate in after.policy))
