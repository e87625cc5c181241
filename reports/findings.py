"""Every judgement of a report as one flat list, with stable rule ids: the source of JUnit, SARIF and `audit diff`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.core.claims import Outcome, Verdict
from audit.core.game_results import GameResult
from audit.core.results import AuditReport, MechanismResult, Status
from audit.core.rounding import down, percent, significant, up
from reports import headline


class State(StrEnum):
    """How a judgement ended."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"  # nothing was tested, or only declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One judgement.

    Attributes:
        rule: stable id; the part after a slash comes from the check or gate itself.
        subject: mechanism, or mechanism.game.attack, or "" for the whole report.
        figures: the numbers behind it, by name.
    """

    rule: str
    subject: str
    title: str
    state: State
    message: str
    figures: tuple[tuple[str, float], ...] = ()


RULES = {
    "AU001": "A claim is not contradicted by any admissible lower bound",
    "AU002": "The audit could have contradicted the claim",
    "AU003": "The negative control proves nothing more often than chance allows",
    "AU004": "The class of attack was run",
    "AU005": "A lower bound of one estimator lies under the claim",
    "DP": "What was run is what the claim assumes",
    "PO": "A gate of the release policy is met",
}
"""Rule ids with what holds when they hold."""


def findings(report: AuditReport) -> tuple[Finding, ...]:
    """All judgements of the report, in the order of its pages."""
    results: list[Finding] = []
    for mechanism in report.mechanisms:
        for verdict in mechanism.verdicts:
            results += _of_verdict(mechanism, verdict)
        results += _of_checks(mechanism)
        for game in mechanism.games:
            for source in headline.sources(game):
                results += _of_source(mechanism, game, source)
    results += _of_policy(report)
    results += _of_coverage(report)
    return tuple(results)


def rule_family(rule: str) -> str:
    """The key of `RULES` that a rule id belongs to.

    >>> rule_family("DP/noise")
    'DP'
    """
    return rule.partition("/")[0]


def slug(text: str) -> str:
    """Lower-case letters, digits and dashes.

    >>> slug("TPR at 0.1 % FPR")
    'tpr-at-0-1-fpr'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _of_verdict(mechanism: MechanismResult, verdict: Verdict) -> Iterator[Finding]:
    claim = verdict.claim
    able = headline.admissible(claim, mechanism)
    ceiling = max((source.bound.ceiling for source in able), default=0.0)
    free = [source.bound for source in able if source.bound.family is None]
    strongest = max((bound.epsilon for bound in free), default=0.0)
    inside = verdict.bound if verdict.bound is not None and verdict.bound.family is not None else None
    family_fields = () if inside is None else ((f"epsilon_inside_{inside.family}", inside.epsilon),)
    figures = (
        ("claimed_epsilon", claim.epsilon),
        ("proven_epsilon", strongest),
        *family_fields,
        ("ceiling", ceiling),
        ("delta", claim.delta),
    )
    only = "" if inside is None else f" for any mechanism, {down(inside.epsilon)} inside the family {inside.family} only"
    states = {Outcome.CONSISTENT: State.HOLDS, Outcome.VIOLATED: State.FAILS, Outcome.INVALID: State.FAILS}
    yield Finding(
        rule="AU001",
        subject=mechanism.name,
        title=f"claim of {claim.source}",
        state=states.get(verdict.outcome, State.OPEN),
        message=f"{verdict.outcome.value}: claimed {up(claim.epsilon)}, proven {down(strongest)}{only}, ceiling "
        f"{down(ceiling)}; {verdict.reason}",
        figures=figures,
    )
    yield Finding(
        rule="AU002",
        subject=mechanism.name,
        title=f"reach against the claim of {claim.source}",
        state=State.OPEN if verdict.outcome is Outcome.OUT_OF_REACH else State.HOLDS,
        message=f"perfect scores would have proven up to {down(ceiling)}{_reach(able)}, claimed is {up(claim.epsilon)}",
        figures=figures,
    )


def _reach(able: Sequence[headline.Placed]) -> str:
    """The ceiling for any mechanism, where a family is what lifts it."""
    free = max((source.bound.ceiling for source in able if source.bound.family is None), default=0.0)
    highest = max((source.bound.ceiling for source in able), default=0.0)
    return f" inside a family, {down(free)} for any mechanism" if free < highest else ""


def _of_checks(mechanism: MechanismResult) -> Iterator[Finding]:
    states = {Status.CHECKED: State.HOLDS, Status.FAILED: State.FAILS}
    for check in mechanism.checks:
        yield Finding(
            rule=f"DP/{slug(check.code)}",
            subject=mechanism.name,
            title=check.item,
            state=states.get(check.status, State.OPEN),
            message=f"{check.item}: {check.value} ({check.status.value})",
        )


def _of_source(mechanism: MechanismResult, game: GameResult, source: headline.Source) -> Iterator[Finding]:
    subject = f"{mechanism.name}.{game.name}.{source.name}"
    if source.control is not None:
        control = source.control
        yield Finding(
            rule="AU003",
            subject=subject,
            title="negative control",
            state=State.HOLDS if control.passed else State.FAILS,
            message=f"{control.false_alarms} false alarms in {control.repetitions} repetitions, {control.allowed} allowed",
            figures=(("false_alarms", control.false_alarms), ("allowed", control.allowed)),
        )
    claim = headline.tightest(mechanism)
    area = "" if source.result is None else f"; AUC {percent(source.result.auc)}"
    for bound in source.bounds:
        able = claim is not None and bound.delta == claim.delta and bound.family in (None, claim.family)
        above = able and claim is not None and bound.epsilon > claim.epsilon
        kind = f" inside the family {bound.family}" if bound.family else ""
        against = f", claimed {up(claim.epsilon)}" if claim else ", nothing claimed"
        yield Finding(
            rule="AU005",
            subject=subject,
            title=f"lower bound of {bound.estimator}",
            state=State.FAILS if above else State.HOLDS if able else State.OPEN,
            message=f"proven {down(bound.epsilon)}{kind} of at most {down(bound.ceiling)}{against}{area}",
            figures=(("proven_epsilon", bound.epsilon), ("ceiling", bound.ceiling), ("confidence", bound.confidence)),
        )


def _of_policy(report: AuditReport) -> Iterator[Finding]:
    for gate in report.policy:
        value = "not measured" if gate.found is None else significant(gate.found)
        yield Finding(
            rule=f"PO/{slug(gate.gate)}",
            subject="",
            title=gate.gate,
            state=State.HOLDS if gate.met else State.FAILS,
            message=f"{gate.gate}: found {value}, limit {significant(gate.limit)}",
        )


def _of_coverage(report: AuditReport) -> Iterator[Finding]:
    for row in report.coverage:
        yield Finding(
            rule="AU004",
            subject="",
            title=row.attack_class,
            state=State.HOLDS if row.status == "run" else State.OPEN,
            message=f"{row.attack_class}: {row.status} ({row.done})",
        )
