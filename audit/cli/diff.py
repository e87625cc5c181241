"""`audit diff`: compare two audits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.printing import AsJson, print_json, print_plain
from audit.cli.report_files import load

if TYPE_CHECKING:
    from audit.core.results import AuditReport
    from reports.diff import Change

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
    differences = comparison.changes(before, after)
    _show(differences, before, after, as_json)
    if comparison.is_worse(differences):
        return REGRESSION
    return judge.exit_code(after.outcome, all(gate.met for gate in after.policy))


def _show(changes: Sequence[Change], before: AuditReport, after: AuditReport, as_json: bool) -> None:
    if as_json:
        rows = [
            {"weight": change.weight.value, "subject": change.subject, "text": change.text, "p_value": change.p_value}
            for change in changes
        ]
        print_json({"old": before.id, "new": after.id, "changes": rows})
        return
    for change in changes:
        print_plain(f"{change.weight.value:<6} {change.subject + ': ' if change.subject else ''}{change.text}")
    print_plain(f"{before.id} to {after.id}: {len(changes)} difference{'' if len(changes) == 1 else 's'}")
