"""How the commands that check steps end: the report to a folder and to the screen, and the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from audit.cli.printing import print_json, print_plain

if TYPE_CHECKING:
    from audit.step_checks.findings import StepReport


def conclude(report: StepReport, subject: str, output: Path | None, as_json: bool) -> int:
    """Save a report if a folder is given, print it, and return 1 if a property failed; JSON names the report `subject`."""
    if output is not None:
        report.save(output)
    code = 1 if report.failures else 0
    if as_json:
        print_json({"exit_code": code, subject: report.name, "findings": report.to_rows(), "seconds": dict(report.seconds)})
    else:
        print_plain(*str(report).splitlines())
    return code
