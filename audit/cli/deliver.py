"""How `audit model` and `audit scores` end: files, a short text or one JSON object, an exit code."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.cli import output
from audit.cli.printing import print_result
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.game_results import AttackResult, GameResult
from audit.core.lower_bounds import ReportedBound, VoidBound, read_ceiling, read_epsilon
from audit.core.results import IN_WORDS, AuditReport, Status
from audit.core.rounding import SPACE, decimals, down, percent, up


def origin(device: str) -> dict[str, Any]:
    """The settings that say where a report comes from: command line and device."""
    from audit.experiment.line import provenance

    if device == "cpu":
        return {"command": provenance.command_line(), "device": "cpu"}
    from audit.engine.device import describe

    return {"command": provenance.command_line(), "device": describe(device)[0]}


def scores(columns: Mapping[str, Array], included: Array, **names: Any) -> dict[str, bytes]:
    """Return the file of all scores `(n,)` by attack, with what names their records. Holds memberships: for internal use."""
    import io

    import pandas as pd

    frames = [
        pd.DataFrame({"attack": attack, **names, "member": included, "score": column}) for attack, column in columns.items()
    ]
    buffer = io.BytesIO()
    pd.concat(frames, ignore_index=True).to_parquet(buffer, index=False)
    return {"scores.parquet": buffer.getvalue()}


def demand_new(folder: Path) -> None:
    """Raise `ConfigError` if the output folder exists; asked before the work, not after it."""
    if os.path.lexists(folder):
        raise ConfigError(f"'{folder}' exists already; choose another --output, or remove it")


def finish(
    report: AuditReport,
    folder: Path | None,
    as_json: bool,
    formats: Sequence[str],
    extra_files: Mapping[str, bytes] | None = None,
) -> int:
    """Write report and `extra_files` (if a folder is given), print it, return the exit code; `OutputError` if not whole."""
    import reports
    from audit.execution import store
    from audit.experiment.line import judge as verdict

    run_folder: Path | None = None
    failures: list[str] = []
    if folder is not None:
        files, failures = reports.attempt(report, (*formats, "json") if "json" not in formats else formats)
        run_folder = store.write_outputs(folder, {**files, **(extra_files or {})})
    code = verdict.exit_code(report.outcome, all(gate.met for gate in report.policy))
    games = report.games
    values = {
        **output.digest(report),
        "attacks": [_attack(attack) for game in games for attack in game.attacks],
        "certificates": [asdict(row) | {"kept": row.kept} for game in games for row in game.certificates],
        "detectable": [asdict(row) for game in games for row in game.detectable],
        "exit_code": code,
        "folder": None if run_folder is None else str(run_folder),
    }
    with decimals(report.places):
        lines = _lines(report, run_folder)
    print_result(as_json, values, *lines)
    if run_folder is not None:
        reports.refuse_incomplete(failures, run_folder)
    return code


def _lines(report: AuditReport, folder: Path | None) -> list[str]:
    text = [f"{report.title}: {IN_WORDS[report.outcome]}"]
    text += [f"  {remark}" for remark in report.remarks]
    for result in report.mechanisms:
        text += [f"  {verdict.reason}" for verdict in result.verdicts]
        text += [
            f"  holds only if membership was decided by {check.value}: this is declared, and no table of scores shows it"
            for check in result.checks
            if check.code == "game" and check.status is Status.DECLARED
        ]
    for attack in (attack for game in report.games for attack in game.attacks):
        rates = [
            f"TPR {_percent(point.tpr)} at FPR {point.target_fpr:g} "
            f"({_percent(point.lower, 'down')} to {_percent(point.upper, 'up')})"
            for point in attack.tpr_at
            if point.tpr is not None and point.lower is not None and point.upper is not None
        ]
        if attack.auc is None:
            figures = ["one record on a side, which says nothing of how often it is right"]
        else:
            figures = [f"AUC {attack.auc:.3f} ({attack.auc_lower:.3f} to {attack.auc_upper:.3f})", *rates]
        text.append(f"  {attack.scorer}: {'; '.join(figures)}")
        text += [f"    {_bound(bound)}" for bound in attack.bounds]
        if attack.control is not None:
            control = attack.control
            word = "passed" if control.passed else "FAILED"
            text.append(f"    negative control {word}: {control.false_alarms} of {control.repetitions} alarms")
    text += [line for game in report.games for line in _simulation_lines(game)]
    text += output.gate_lines(report)
    return [*text, *([f"report: {output.document(folder)}"] if folder is not None else [])]


def _percent(rate: float, side: str = "near") -> str:
    """Return a rate as the pages round it, for a console."""
    return percent(rate, side=side).replace(SPACE, "")


def _bound(bound: ReportedBound) -> str:
    inside = f" inside the family '{bound.family}' only" if bound.family else ""
    proven = "void, nothing is proven: epsilon" if isinstance(bound, VoidBound) else "epsilon at least"
    return (
        f"{bound.estimator}: {proven} {down(read_epsilon(bound))}{inside} at delta {bound.delta:g}, confidence "
        f"{bound.confidence:.4g}; ceiling {down(read_ceiling(bound))}"
    )


def _simulation_lines(game: GameResult) -> list[str]:
    """Return what simulated audits of this size say: how often they are wrong, and which leaks they would have caught."""
    lines = [
        f"  simulated on {certificate.law}: {certificate.wrong} of {certificate.repetitions} audits wrong, at most "
        f"{certificate.nominal:.1%} promised; the true rate lies between {certificate.lower:.1%} and {certificate.upper:.1%} "
        f"(99% limits){'' if certificate.kept else '; MORE THAN CHANCE EXPLAINS'}"
        for certificate in game.certificates
    ]
    if lines:
        lines.append(
            "    every simulated audit tests the true epsilon, and one in ten also searches for its largest bound; the limits "
            "cover both rates, so they are wide where few bounds were searched for"
        )
    for detectable in game.detectable:
        epsilon_text = "nothing at all" if math.isinf(detectable.epsilon) else f"a true epsilon from {up(detectable.epsilon)}"
        inside = f" inside the family '{detectable.family}'" if detectable.family else ""
        over = f"against a claim of {up(detectable.claim)}" if detectable.claim > 0 else "for the proof of any leakage"
        lines.append(
            f"  {detectable.estimator}{inside} would have caught, {over}, {epsilon_text} with {detectable.power:.0%} "
            "probability"
        )
    return lines


def _attack(attack: AttackResult) -> dict[str, Any]:
    return {
        "scorer": attack.scorer,
        "auc": None if attack.auc is None else [attack.auc_lower, attack.auc, attack.auc_upper],
        "tpr_at_fpr": {f"{point.target_fpr:g}": [point.lower, point.tpr, point.upper] for point in attack.tpr_at},
        "bounds": [{**output.digest_bound(bound), "confidence": bound.confidence} for bound in attack.bounds],
        "negative_control": None if attack.control is None else attack.control.passed,
    }
