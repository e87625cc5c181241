"""How `audit model` and `audit scores` end: files, a short text or one JSON object, an exit code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.cli.printing import print_json, print_plain
from audit.core.claims import LowerBound
from audit.core.errors import ConfigError
from audit.core.game_results import AttackResult, GameResult
from audit.core.results import IN_WORDS, AuditReport
from audit.core.rounding import down, up


def origin(device: str) -> dict[str, Any]:
    """The settings that say where a report comes from: command line and device."""
    from audit.experiment import provenance

    if device == "cpu":
        return {"command": provenance.command_line(), "device": "cpu"}
    from audit.engine.device import describe

    return {"command": provenance.command_line(), "device": describe(device)[0]}


def demand_new(folder: Path) -> None:
    """Nothing, or `ConfigError` where the output folder exists; asked before the work, not after it."""
    if folder.exists():
        raise ConfigError(f"'{folder}' exists already; choose another --output, or remove it")


def finish(
    report: AuditReport,
    folder: Path | None,
    as_json: bool,
    formats: Sequence[str],
    more: Mapping[str, bytes] | None = None,
) -> int:
    """Writes the report and the files in `more` (if a folder is given), prints it, and returns the exit code.

    Raises:
        OutputError: an output could not be written.
    """
    import reports
    from audit.cli import output
    from audit.execution import store
    from audit.experiment import judge as verdict

    written: Path | None = None
    failures: list[str] = []
    if folder is not None:
        files, failures = reports.attempt(report, (*formats, "json") if "json" not in formats else formats)
        written = store.write_outputs(folder, {**files, **(more or {})})
    code = verdict.exit_code(report.outcome, all(gate.met for gate in report.policy))
    if as_json:
        found = {
            **output.digest(report),
            "attacks": [_attack(attack) for attack in _attacks(report)],
            "certificates": [asdict(one) | {"kept": one.kept} for game in _games(report) for one in game.certificates],
            "detectable": [asdict(one) for game in _games(report) for one in game.detectable],
            "exit_code": code,
            "folder": None if written is None else str(written),
        }
        print_json(found)
    else:
        print_plain(*_lines(report, written))
    if written is not None:
        reports.refuse_incomplete(failures, written)
    return code


def _games(report: AuditReport) -> list[GameResult]:
    return [game for result in report.mechanisms for game in result.games]


def _attacks(report: AuditReport) -> list[AttackResult]:
    return [attack for game in _games(report) for attack in game.attacks]


def _lines(report: AuditReport, folder: Path | None) -> list[str]:
    from audit.cli.output import document

    found = [f"{report.title}: {IN_WORDS[report.outcome]}"]
    for result in report.mechanisms:
        found += [f"  {verdict.reason}" for verdict in result.verdicts]
    for attack in _attacks(report):
        rates = [
            f"TPR {point.tpr:.1%} at FPR {point.target_fpr:g} ({point.lower:.1%} to {point.upper:.1%})"
            for point in attack.tpr_at
            if point.tpr is not None and point.lower is not None and point.upper is not None
        ]
        area = f"AUC {attack.auc:.3f} ({attack.auc_lower:.3f} to {attack.auc_upper:.3f})"
        found.append(f"  {attack.scorer}: {'; '.join([area, *rates])}")
        found += [f"    {_bound(bound)}" for bound in attack.bounds]
        if attack.control is not None:
            control = attack.control
            word = "passed" if control.passed else "FAILED"
            found.append(f"    negative control {word}: {control.false_alarms} of {control.repetitions} alarms")
    found += [line for game in _games(report) for line in _simulated(game)]
    found += [f"note: {note}" for note in report.notes]
    return [*found, *([f"report: {document(folder)}"] if folder is not None else [])]


def _bound(bound: LowerBound) -> str:
    where = f" inside the family '{bound.family}'" if bound.family else ""
    return (
        f"{bound.estimator}: epsilon at least {down(bound.epsilon)}{where} at delta {bound.delta:g}, confidence "
        f"{bound.confidence:.4g}; ceiling {down(bound.ceiling)}"
    )


def _simulated(game: GameResult) -> list[str]:
    """What simulated audits of this size say: how often they are wrong, and what they would have caught."""
    found = [
        f"  simulated on {one.law}: {one.wrong} of {one.repetitions} audits wrong, a rate of {one.lower:.1%} to "
        f"{one.upper:.1%}; at most {one.nominal:.1%} promised"
        f"{'' if one.kept else '; MORE THAN CHANCE EXPLAINS'}"
        for one in game.certificates
    ]
    for caught in game.detectable:
        what = "nothing at all" if math.isinf(caught.epsilon) else f"a true epsilon from {up(caught.epsilon)}"
        inside = f" inside the family '{caught.family}'" if caught.family else ""
        over = f"against a claim of {up(caught.claim)}" if caught.claim > 0 else "for the proof of any leakage"
        found.append(f"  {caught.estimator}{inside} would have caught, {over}, {what} with {caught.power:.0%} probability")
    return found


def _attack(attack: AttackResult) -> dict[str, Any]:
    return {
        "scorer": attack.scorer,
        "auc": [attack.auc_lower, attack.auc, attack.auc_upper],
        "tpr_at_fpr": {f"{point.target_fpr:g}": [point.lower, point.tpr, point.upper] for point in attack.tpr_at},
        "bounds": [
            {
                "estimator": bound.estimator,
                "family": bound.family,
                "epsilon": bound.epsilon,
                "ceiling": bound.ceiling,
                "confidence": bound.confidence,
            }
            for bound in attack.bounds
        ],
        "negative_control": None if attack.control is None else attack.control.passed,
    }
