"""What a person or a program reads on stdout at the end of a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.core.results import AuditReport, LowerBound, MechanismResult, Outcome
from reports.rounding import down, up

if TYPE_CHECKING:
    from audit.design import Experiment

WORDS = {
    Outcome.VIOLATED: "the claim is contradicted",
    Outcome.CONSISTENT: "the claim was not contradicted",
    Outcome.OUT_OF_REACH: "not testable: this audit could not have contradicted the claim",
    Outcome.INVALID: "invalid: the audit's own checks failed",
    None: "no claim was made",
}


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
    free = [bound for bound in _bounds(result) if bound.family is None]
    return {
        "name": result.name,
        "outcome": result.outcome.value if result.outcome else None,
        "claims": [{"epsilon": claim.epsilon, "delta": claim.delta, "source": claim.source} for claim in result.claims],
        "proven": _best(free),
        "proven_within_family": _best(_inside(result)),
        "utility": {metric.name: metric.value for metric in result.utility},
    }


def _best(bounds: list[LowerBound]) -> dict[str, Any] | None:
    if not bounds:
        return None
    best = max(bounds, key=lambda bound: bound.epsilon)
    reach = max(bound.ceiling for bound in bounds)
    return {
        "epsilon": best.epsilon,
        "estimator": best.estimator,
        "family": best.family,
        "ceiling": reach if math.isfinite(reach) else "Infinity",
    }


def _bounds(result: MechanismResult) -> list[LowerBound]:
    return [bound for game in result.games for attack in game.attacks for bound in attack.bounds]


def lines(report: AuditReport, folder: Path) -> list[str]:
    """At most a dozen lines: verdict, claimed, proven, ceiling, paths."""
    found = [f"{report.title}: {WORDS[report.outcome]}"]
    for result in report.mechanisms:
        found.append(_line(result, report))
    missed = [gate for gate in report.policy if not gate.met]
    found += [f"policy gate {gate.gate} not met: found {gate.found}, limit {gate.limit}" for gate in missed[:3]]
    found += [f"note: {note}" for note in report.notes[:3]]
    return [*found, f"report: {folder / 'report.pdf'}"]


def _line(result: MechanismResult, report: AuditReport) -> str:
    claimed = "no claim"
    if result.claims:
        tightest = min(result.claims, key=lambda claim: claim.epsilon)
        claimed = f"claimed epsilon <= {up(tightest.epsilon)} ({tightest.source})"
    free = [bound for bound in _bounds(result) if bound.family is None]
    proven = f"proven >= {down(max((b.epsilon for b in free), default=0.0))}"
    ceiling = f"ceiling {down(max((b.ceiling for b in free), default=0.0))}"
    inside = _inside(result)
    more = ""
    if inside:
        best = max(inside, key=lambda bound: bound.epsilon)
        more = f"; within the family '{best.family}' >= {down(best.epsilon)} (ceiling {down(best.ceiling)})"
    return f"  {result.name}: {claimed}; {proven} at {report.confidence:.0%}, {ceiling}{more}"


def _inside(result: MechanismResult) -> list[LowerBound]:
    """Bounds inside a family: those of the family that the tightest claim asserts where there are any, else all."""
    within = [bound for bound in _bounds(result) if bound.family is not None]
    tightest = min(result.claims, key=lambda claim: claim.epsilon, default=None)
    able = [bound for bound in within if tightest is not None and tightest.can_be_refuted_by(bound)]
    return able or within


def plan(experiment: Experiment) -> dict[str, Any]:
    """What an audit will do and the most it could show: each bound on perfectly separated scores."""
    import numpy as np

    from audit import experiment as line
    from audit import measure
    from audit.core.records import Scores
    from audit.rounds import plant, rules_of

    rows = []
    for recipe, play in experiment.pairs:
        seed = experiment.seed.child("plan")
        planting = plant(experiment, play, seed)
        included = planting.included[: play.runs].ravel()
        values = np.where(included, 1.0, -1.0) * (1 + np.arange(len(included)) / len(included))
        scores = Scores(
            values=values, included=included, game=rules_of(play, planting, play.access), mechanism=recipe.mechanism
        )
        level = experiment.bound_confidence
        for bound in measure.bounds(scores, play.estimators, delta=experiment.delta, confidence=level, seed=seed):
            rows.append(
                {
                    "mechanism": recipe.name,
                    "game": play.name,
                    "estimator": bound.estimator,
                    "family": bound.family,
                    "ceiling": bound.ceiling if math.isfinite(bound.ceiling) else "Infinity",
                    "scores": len(included),
                }
            )
    claims = {
        recipe.name: [{"epsilon": c.epsilon, "source": c.source} for c in line.state(recipe, experiment).claims]
        for recipe in experiment.recipes
    }
    return {
        "models": sum(play.models for _, play in experiment.pairs),
        "model_steps": experiment.model_steps,
        "bounds": experiment.comparisons,
        "confidence_each": experiment.bound_confidence,
        "claims": claims,
        "ceilings": rows,
    }


def show_plan(rows: dict[str, Any]) -> None:
    """The plan as a table on stdout."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(
        f"{rows['models']} models, {rows['model_steps']:,} model-steps; {rows['bounds']} bounds, "
        f"each at confidence {rows['confidence_each']:.4f}"
    )
    for name, claims in rows["claims"].items():
        stated = ", ".join(f"{up(claim['epsilon'])} ({claim['source']})" for claim in claims) or "no claim"
        console.print(f"{name}: {stated}")
    table = Table("mechanism", "game", "estimator", "family", "scores", "most it could prove")
    for row in rows["ceilings"]:
        ceiling = row["ceiling"] if isinstance(row["ceiling"], str) else down(row["ceiling"])
        table.add_row(row["mechanism"], row["game"], row["estimator"], row["family"] or "any", f"{row['scores']:,}", ceiling)
    console.print(table)
