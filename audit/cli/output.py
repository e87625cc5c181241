"""What a person or a program reads on stdout at the end of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audit.core.evidence import Watched
from audit.core.lower_bounds import FamilyBound, LowerBound, ReportedBound, VoidBound, largest_bound, read_ceiling, read_epsilon
from audit.core.results import IN_WORDS, AuditReport, GateResult, MechanismResult
from audit.core.rounding import decimals, down, up


def digest(report: AuditReport) -> dict[str, Any]:
    """The report in a few numbers, for programs."""
    return {
        "id": report.id,
        "outcome": report.outcome.value if report.outcome else None,
        "delta": report.delta,
        "confidence": report.confidence,
        "policy_met": all(gate.met for gate in report.policy),
        "mechanisms": [_mechanism(result) for result in report.mechanisms],
        "notes": list(report.notes),
    }


def _mechanism(result: MechanismResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "outcome": result.outcome.value if result.outcome else None,
        "claims": [{"epsilon": claim.epsilon, "delta": claim.delta, "source": claim.source} for claim in result.claims],
        "proven": _digest_largest(result.bounds),
        "proven_within_family": _digest_largest(_inside(result)),
        "void": _digest_largest(_void(result)),
        "utility": {metric.name: metric.value for metric in result.utility},
        "stopping": [_stopping(game.name, game.watched) for game in result.games if game.watched is not None],
    }


def _stopping(game: str, stopping: Watched) -> dict[str, Any]:
    return {
        "game": game,
        "planned_runs": stopping.planned,
        "runs": stopping.used,
        "proved_after": stopping.proved,
        "evidence": [
            {
                "estimator": process.estimator,
                "family": process.family,
                "claim": process.claim.epsilon,
                "source": process.claim.source,
                "models": list(process.models),
                "log_e_value": list(process.log_evidence),
                "log_threshold": process.threshold,
                "proved_after": process.proved,
            }
            for process in stopping.evidence
        ],
    }


def _digest_largest(bounds: Sequence[ReportedBound]) -> dict[str, Any] | None:
    best = largest_bound(bounds)
    return None if best is None else digest_bound(best)


def digest_bound(bound: ReportedBound) -> dict[str, Any]:
    """Return a bound under the names of its type, so that no program takes one for another."""
    match bound:
        case FamilyBound():
            figures = {"epsilon_inside": bound.epsilon_inside, "ceiling_inside": bound.ceiling_inside}
        case VoidBound():
            figures = {"void_epsilon": bound.void_epsilon, "void_ceiling": bound.void_ceiling}
        case LowerBound():
            figures = {"epsilon": bound.epsilon, "ceiling": bound.ceiling}
    return {**figures, "estimator": bound.estimator, "family": bound.family}


def lines(report: AuditReport, folder: Path) -> list[str]:
    """At most a dozen lines: verdict, claimed, proven, ceiling, paths."""
    output = [f"{report.title}: {IN_WORDS[report.outcome]}"]
    for result in report.mechanisms:
        with decimals(report.places):
            output.append(_line(result, report))
        output += [f"    {game.name}: {_stopping_text(game.watched)}" for game in result.games if game.watched is not None]
    output += gate_lines(report)
    output += [f"note: {note}" for note in report.notes[:3]]
    return [*output, f"report: {document(folder)}"]


def gate_lines(report: AuditReport) -> list[str]:
    """Return a line for each policy gate."""
    return [
        f"policy gate {gate.gate} {'met' if gate.met else 'not met'}: found "
        f"{'no figure' if gate.found is None else f'{gate.found:.4g}'}, limit {gate.limit:g}{_unmeasured(report, gate)}"
        for gate in sorted(report.policy, key=lambda gate: gate.met)
    ]


def _unmeasured(report: AuditReport, gate: GateResult) -> str:
    """Return why there is no figure at a false positive rate that the nonmembers do not resolve; "" if that is not why."""
    rate_text = re.search(r"tpr@([\d.]+)%|tpr_at_(\d+)_percent", gate.gate)
    count = max((attack.roc.nonmembers for game in report.games for attack in game.attacks), default=0)
    if gate.found is not None or rate_text is None or count == 0:
        return ""
    rate = float(rate_text[1] or rate_text[2]) / 100
    if rate * count >= 1:
        return ""
    return (
        f"; {count} nonmembers measure no false positive rate below 1/{count}: name a higher rate, or give at least "
        f"{math.ceil(1 / rate - 1e-9)} nonmembers"
    )


def document(folder: Path) -> Path:
    """Return what there is to read in a finished folder: the PDF, else report.json, else the folder itself."""
    return next((folder / name for name in ("report.pdf", "report.json") if (folder / name).is_file()), folder)


def _stopping_text(stopping: Watched) -> str:
    if stopping.proved is None:
        return f"no proof within {stopping.used} runs"
    return f"proof after {stopping.proved} runs; {stopping.used} of {stopping.planned} trained"


def _line(result: MechanismResult, report: AuditReport) -> str:
    claim_text = "no claim"
    if result.claims:
        tightest = min(result.claims, key=lambda claim: claim.epsilon)
        claim_text = f"claimed epsilon <= {up(tightest.epsilon)} ({tightest.source})"
    best = largest_bound(result.bounds) or largest_bound(_void(result))
    bound_text = "no bound for any mechanism"
    if best is not None:
        game = next(game.name for game in result.games if best in game.bounds)
        proven = "void, nothing is proven: the figure is" if isinstance(best, VoidBound) else "proven >="
        bound_text = (
            f"{proven} {down(read_epsilon(best))} at {report.confidence:.0%} ({game}; its ceiling {down(read_ceiling(best))})"
        )
    inside = largest_bound(_inside(result))
    family_text = ""
    if inside is not None:
        family_text = (
            f"; within the family '{inside.family}' only >= {down(read_epsilon(inside))} (ceiling {down(read_ceiling(inside))})"
        )
    return f"  {result.name}: {claim_text}; {bound_text}{family_text}"


def _void(result: MechanismResult) -> list[VoidBound]:
    """Return the void bounds that would have held for any mechanism."""
    return [bound for bound in result.all_bounds if isinstance(bound, VoidBound) and bound.family is None]


def _inside(result: MechanismResult) -> list[FamilyBound]:
    """Return bounds inside a family: those of the family that the tightest claim asserts if there are any, else all."""
    within = result.bounds_inside
    tightest = min(result.claims, key=lambda claim: claim.epsilon, default=None)
    able = [bound for bound in within if tightest is not None and tightest.can_be_refuted_by(bound)]
    return able or within
