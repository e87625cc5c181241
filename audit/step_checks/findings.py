"""What step checks find: one row per property, with the inputs that show it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from audit import plugins
from audit.core.errors import ConfigError
from audit.core.files import make_folder
from audit.core.rounding import plural
from audit.step_checks.batches import Batch
from audit.step_checks.steps import Setting


class PropertyStatus(StrEnum):
    """How a property is."""

    PASSED = "passed"  # tested, and it holds
    NOTE = "note"  # tested, and it holds otherwise than claimed: more noise, a public constant
    FAILED = "failed"  # tested, and the witness shows that it does not
    WEAKNESS = "weakness"  # fails on inputs that a public bound on records excludes, as in every library
    ACCEPTED = "accepted"  # fails, or is a weakness, and the user gave a reason to live with it
    GAP = "gap"  # could not be tested here; the message says why
    QUESTION = "question"  # a step alone cannot tell; a user has to answer


class Replay(Protocol):
    """Inputs that show a failure again."""

    def save(self, path: Path) -> None:
        """Write the inputs as an npz file without pickled objects."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Witness:
    """A call, or a pair of calls, that shows a failure.

    Attributes:
        base: the batch.
        neighbour: the batch that differs in one record, or None.
        setting: what the step was called with.
        seed: of the generator.
    """

    base: Batch
    neighbour: Batch | None
    setting: Setting
    seed: int

    def save(self, path: Path) -> None:
        """Write the witness as an npz file without pickled objects."""
        arrays: dict[str, Any] = {f"base_{i}": array for i, array in enumerate(self.base)}
        if self.neighbour is not None:
            arrays |= {f"neighbour_{i}": array for i, array in enumerate(self.neighbour)}
        setting = [self.setting.noise_multiplier, self.setting.clip_norm, self.setting.divisor]
        np.savez(path, **arrays, setting=np.array(setting), seed=np.array(self.seed))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Finding:
    """One property of the step.

    Attributes:
        check: stable id, such as "clip.add".
        status: how it is.
        message: what was measured against what was claimed, in one sentence.
        measured: the measured number, or None.
        claimed: the number that it should be, or not exceed, or None.
        fix: what to change, for a failure.
        witness: inputs that replay a failure.
        reason: that the user gave, if the finding was accepted.
    """

    check: str
    status: PropertyStatus
    message: str
    measured: float | None = None
    claimed: float | None = None
    fix: str = ""
    witness: Replay | None = None
    reason: str = ""


def pass_finding(check: str, message: str, measurement: float | None = None, claim: float | None = None) -> Finding:
    """Return the finding of a property that holds."""
    return Finding(check=check, status=PropertyStatus.PASSED, message=message, measured=measurement, claimed=claim)


def failure(
    check: str, message: str, *, fix: str, witness: Replay | None, measurement: float | None = None, claim: float | None = None
) -> Finding:
    """Return the finding of a property that the witness refutes."""
    return Finding(
        check=check,
        status=PropertyStatus.FAILED,
        message=message,
        measured=measurement,
        claimed=claim,
        fix=fix,
        witness=witness,
    )


def note(check: str, message: str, measurement: float | None = None, claim: float | None = None) -> Finding:
    """Return the finding of a property that holds otherwise than claimed."""
    return Finding(check=check, status=PropertyStatus.NOTE, message=message, measured=measurement, claimed=claim)


def gap(check: str, message: str) -> Finding:
    """Return the finding of a property that could not be tested."""
    return Finding(check=check, status=PropertyStatus.GAP, message=message)


def finding(
    check: str,
    holds: bool,
    message: str,
    *,
    fix: str = "",
    witness: Replay | None = None,
    measurement: float | None = None,
    claim: float | None = None,
) -> Finding:
    """Return the finding of a property that holds or not; fix and witness are kept for a failure."""
    if holds:
        return pass_finding(check, message, measurement, claim)
    return failure(check, message, fix=fix, witness=witness, measurement=measurement, claim=claim)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepReport:
    """The findings of all probes on one step.

    Attributes:
        name: of the step.
        setting: that was claimed.
        findings: in the order of the probes.
        seconds: probe name to wall time.
    """

    name: str
    setting: Setting
    findings: tuple[Finding, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings that refute the claim."""
        return tuple(finding for finding in self.findings if finding.status is PropertyStatus.FAILED)

    @property
    def exit_code(self) -> int:
        """1 if a check failed, else 0: weaknesses fail `audit step --strict` alone."""
        return int(bool(self.failures))

    @property
    def weaknesses(self) -> tuple[Finding, ...]:
        """Findings that fail only on inputs that a public bound on records excludes."""
        return tuple(finding for finding in self.findings if finding.status is PropertyStatus.WEAKNESS)

    def accept(self, reasons: Mapping[str, str]) -> StepReport:
        """Return the report with failures and weaknesses accepted; a reason for a check that holds changes nothing.

        Args:
            reasons: id of a check, such as "clip.non_finite", to why it may fail.

        Raises:
            ConfigError: no check of the report has that id, or a reason is empty.
        """
        checks = [finding.check for finding in self.findings]
        for check, reason in reasons.items():
            if check not in checks:
                raise ConfigError(
                    f"no check is called '{check}'.{plugins.hint(check, checks)} It is one of {', '.join(checks)}"
                )
            if not reason.strip():
                raise ConfigError(f"'{check}' is accepted without a reason; give one, it is printed in the report")
        acceptable = (*self.failures, *self.weaknesses)
        findings = tuple(
            replace(finding, status=PropertyStatus.ACCEPTED, reason=reasons[finding.check])
            if finding in acceptable and finding.check in reasons
            else finding
            for finding in self.findings
        )
        return replace(self, findings=findings)

    @property
    def open(self) -> tuple[Finding, ...]:
        """Findings that leave something untested: gaps and questions."""
        return tuple(finding for finding in self.findings if finding.status in (PropertyStatus.GAP, PropertyStatus.QUESTION))

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one plain dictionary per finding, for JSON and tables."""
        return [
            {
                "check": finding.check,
                "status": finding.status.value,
                "measured": finding.measured,
                "claimed": finding.claimed,
                "message": finding.message,
                "fix": finding.fix,
                **({"reason": finding.reason} if finding.reason else {}),
            }
            for finding in self.findings
        ]

    def to_pandas(self) -> Any:
        """Return the findings as a `pandas.DataFrame`."""
        import pandas as pd

        return pd.DataFrame(self.to_rows())

    def save(self, folder: str | Path) -> list[Path]:
        """Write findings.json and one witness file per failure or weakness; return their paths."""
        target = make_folder(folder)
        paths = [target / "findings.json"]
        content = {"step": self.name, "failures": len(self.failures), "findings": self.to_rows(), "seconds": dict(self.seconds)}
        paths[0].write_text(json.dumps(content, indent=2) + "\n")
        for finding in (*self.failures, *self.weaknesses):
            if finding.witness is not None:
                paths.append(target / f"{finding.check}.npz")
                finding.witness.save(paths[-1])
        return paths

    def __str__(self) -> str:
        order = tuple(PropertyStatus.__members__[name] for name in ("FAILED", "WEAKNESS", "ACCEPTED", "QUESTION", "GAP"))
        order = (*order, PropertyStatus.NOTE, PropertyStatus.PASSED)
        good = (PropertyStatus.PASSED, PropertyStatus.NOTE)
        pass_count = sum(finding.status in good for finding in self.findings)
        accept_count = sum(finding.status is PropertyStatus.ACCEPTED for finding in self.findings)
        meaning = " (not tested, or a question to you)" if self.open else ""
        weak = f", {len(self.weaknesses)} weak" if self.weaknesses else ""
        lines = [
            f"{self.name}: {pass_count} of {plural(len(self.findings), 'check')} passed, {len(self.failures)} failed, "
            f"{len(self.open)} open{meaning}{weak}{f', {accept_count} accepted' if accept_count else ''}"
        ]
        for finding in sorted(self.findings, key=lambda finding: order.index(finding.status)):
            lines.append(f"  {finding.status.value:8s} {finding.check:20s} {finding.message}")
            if finding.reason:
                lines.append(f"  {'':8s} {'':20s} accepted: {finding.reason}")
            elif finding.fix:
                lines.append(f"  {'':8s} {'':20s} fix: {finding.fix}")
        return "\n".join(lines)


def all_findings(package: str, bench: Any, further: Sequence[str] = ()) -> tuple[tuple[Finding, ...], dict[str, float]]:
    """Return the findings of every probe of a package, then of `further` ones by name, and the seconds that each took."""
    findings: list[Finding] = []
    seconds: dict[str, float] = {}
    for kind in (*plugins.names(package), *further):
        start = time.perf_counter()
        findings += plugins.build(package, {"kind": kind}).run(bench)
        seconds[kind] = time.perf_counter() - start
    return tuple(findings), seconds
