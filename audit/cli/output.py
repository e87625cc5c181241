"""What a person or a program reads on stdout at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from audit.core.claims import LowerBound
from audit.core.evidence import Watched
from audit.core.results import IN_WORDS, AuditReport, MechanismResult
from audit.core.rounding import down, up


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
    free = [bound for bound in result.bounds if bound.family is None]
    return {
        "name": result.name,
        "outcome": result.outcome.value if result.outcome else None,
        "claims": [{"epsilon": claim.epsilon, "delta": claim.delta, "source": claim.source} for claim in result.claims],
        "proven": None if result.is_void else _best(free),
        "proven_within_family": None if result.is_void else _best(_inside(result)),
        "void": _best(free) if result.is_void else None,
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


def _best(bounds: list[LowerBound]) -> dict[str, Any] | None:
    if not bounds:
        return None
    best = max(bounds, key=_largest_bound)
    return {
        "epsilon": best.epsilon,
        "estimator": best.estimator,
        "family": best.family,
        "ceiling": best.ceiling,
    }


def lines(report: AuditReport, folder: Path) -> list[str]:
    """At most a dozen lines: verdict, claimed, proven, ceiling, paths."""
    output = [f"{report.title}: {IN_WORDS[report.outcome]}"]
    for result in report.mechanisms:
        output.append(_line(result, report))
        output += [f"    {game.name}: {_stopping_text(game.watched)}" for game in result.games if game.watched is not None]
    output += gate_lines(report)[:3]
    output += [f"note: {note}" for note in report.notes[:3]]
    return [*output, f"report: {document(folder)}"]


def gate_lines(report: AuditReport) -> list[str]:
    """Return a line for each policy gate that is not met."""
    figures = [("no figure" if gate.found is None else f"{gate.found:.4g}", gate) for gate in report.policy if not gate.met]
    return [f"policy gate {gate.gate} not met: found {figure}, limit {gate.limit:g}" for figure, gate in figures]


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
    free = [bound for bound in result.bounds if bound.family is None]
    best = max(free, key=_largest_bound, default=None)
    bound_text = "no bound for any mechanism"
    if best is not None:
        game = next(game.name for game in result.games if best in game.bounds)
        proven = "void: the bound" if result.is_void else "proven"
        bound_text = f"{proven} >= {down(best.epsilon)} at {report.confidence:.0%} ({game}; its ceiling {down(best.ceiling)})"
    inside = _inside(result)
    family_text = ""
    if inside:
        strongest = max(inside, key=_largest_bound)
        family_text = (
            f"; within the family '{strongest.family}' >= {down(strongest.epsilon)} (ceiling {down(strongest.ceiling)})"
        )
    return f"  {result.name}: {claim_text}; {bound_text}{family_text}"


def _largest_bound(bound: LowerBound) -> tuple[float, float]:
    """The order of bounds: by what they prove, then by what they could have proven."""
    return bound.epsilon, bound.ceiling


def _inside(result: MechanismResult) -> list[LowerBound]:
    """Bounds inside a family: those of the family that the tightest claim asserts where there are any, else all."""
    within = [bound for bound in result.bounds if bound.family is not None]
    tightest = min(result.claims, key=lambda claim: claim.epsilon, default=None)
    able = [bound for bound in within if tightest is not None and tightest.can_be_refuted_by(bound)]
    return able or within
