"""How the commands that check steps end: what is accepted, the report to a folder and to the screen, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from audit.cli.printing import print_json, print_plain
from audit.core import files
from audit.core.errors import ConfigError, DataError, OutputError

if TYPE_CHECKING:
    from audit.step_checks.findings import StepReport

FAILURE, WEAKNESS = 1, 5
"""Exit codes: a property failed; none did, but there is a weakness and `--strict` asks for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What a user lets pass.

    Attributes:
        options: `CHECK=reason` each.
        baseline: file of accepted findings, `{step: {check: reason}}`, or None.
        new_baseline: file that accepts what is found now, or None.
        strict: whether weaknesses count.
    """

    options: Sequence[str] = ()
    baseline: Path | None = None
    new_baseline: Path | None = None
    strict: bool = False

    def reasons(self, name: str) -> dict[str, str]:
        """Return the reason of each accepted check of the step `name`; options come before the file.

        Raises:
            ConfigError: an option is not `CHECK=reason`.
            DataError: the file is missing or has another form.
        """
        pairs = [option.partition("=") for option in self.options]
        for check, _, reason in pairs:
            if not check.strip() or not reason.strip():
                raise ConfigError(f'--accept \'{check}\' has no reason; expected CHECK="reason", such as clip.non_finite="..."')
        options = {check.strip(): reason.strip().strip('"') for check, _, reason in pairs}
        return (_read(self.baseline).get(name, {}) if self.baseline is not None else {}) | options


def conclude(report: StepReport, subject: str, output: Path | None, as_json: bool, acceptance: Acceptance | None = None) -> int:
    """Accept what is to be accepted, save and print a report, and return the exit code; JSON names the report `subject`."""
    accepting = acceptance or Acceptance()
    if accepting.new_baseline is not None:
        findings = {finding.check: finding.message for finding in (*report.failures, *report.weaknesses)}
        _write(accepting.new_baseline, {report.name: findings})
    report = report.accept(accepting.reasons(report.name))
    if output is not None:
        report.save(output)
    code = FAILURE if report.failures else WEAKNESS if accepting.strict and report.weaknesses else 0
    if as_json:
        print_json({"exit_code": code, subject: report.name, "findings": report.to_rows(), "seconds": dict(report.seconds)})
    else:
        print_plain(*str(report).splitlines())
    return code


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        document = files.read_json(path)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the baseline {path}: {error}; --write-baseline makes one") from error
    rows = document.values() if isinstance(document, dict) else [None]
    if not all(isinstance(row, dict) and all(isinstance(reason, str) for reason in row.values()) for row in rows):
        raise DataError(f'{path} is not a baseline; expected {{"step": {{"check": "reason"}}}}, as --write-baseline writes it')
    return {str(name): dict(row) for name, row in document.items()}


def _write(path: Path, rows: dict[str, dict[str, str]]) -> None:
    try:
        files.write_whole(path, (json.dumps(rows, indent=1, sort_keys=True) + "\n").encode())
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror}; name another file with --write-baseline") from error
