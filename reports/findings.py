"""Every judgement of a report as one flat list, with stable rule ids: the source of JUnit, SARIF and `audit diff`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from audit.core.claims import Outcome, Verdict
from audit.core.game_results import GameResult
from audit.core.lower_bounds import ReportedBound, VoidBound, largest_bound, read_ceiling, read_epsilon
from audit.core.results import AuditReport, MechanismResult, Status
from audit.core.rounding import SPACE, down, percent, significant, up
from reports import headline
from reports.words.report_cache import in_own_decimals


class JudgementState(StrEnum):
    """How a judgement ended."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"  # nothing was tested, or only declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judgement on mechanism, mechanism.game.attack, or "" for the report, by a stable rule id; figures by name."""

    rule: str
    subject: str
    title: str
    state: JudgementState
    message: str
    figures: tuple[tuple[str, float], ...] = ()


# rule ids with what holds when they hold
RULES = {
    "AU001": "A claim is not contradicted by any admissible lower bound",
    "AU002": "The audit could have contradicted the claim",
    "AU003": "The negative control proves nothing more often than chance allows",
    "AU004": "The class of attack was run",
    "AU005": "A lower bound of one estimator lies under the claim",
    "DP": "What was run is what the claim assumes",
    "PO": "A gate of the release policy is met",
}


@in_own_decimals
def findings(report: AuditReport) -> tuple[Judgement, ...]:
    """All judgements of the report, in the order of its pages, with figures rounded as on the pages."""
    results: list[Judgement] = []
    for mechanism in report.mechanisms:
        for verdict in mechanism.verdicts:
            results += _verdict_finding(mechanism, verdict)
        results += _check_findings(mechanism)
        for game in mechanism.games:
            for source in headline.sources(game):
                results += _source_finding(mechanism, game, source)
    results += _policy_findings(report)
    results += _coverage_findings(report)
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


def _verdict_finding(mechanism: MechanismResult, verdict: Verdict) -> Iterator[Judgement]:
    claim = verdict.claim
    able = [place.bound for place in headline.admissible(claim, mechanism)]
    free = largest_bound([bound for bound in able if bound.family is None])
    bounds = [verdict.bound] if verdict.bound is not None and verdict.bound.family is not None else []
    inside = largest_bound(bounds or [bound for bound in able if bound.family is not None])
    bounds_named = [bound for bound in (free, inside) if bound is not None]
    figures = (
        ("claimed_epsilon", claim.epsilon),
        *(figure for bound in bounds_named for figure in _figures(bound)),
        ("delta", claim.delta),
    )
    proof = "; ".join(_proof(bound) for bound in bounds_named) or "nothing proven"
    states = {
        Outcome.CONSISTENT: JudgementState.HOLDS,
        Outcome.VIOLATED: JudgementState.FAILS,
        Outcome.INVALID: JudgementState.FAILS,
    }
    yield Judgement(
        rule="AU001",
        subject=mechanism.name,
        title=f"claim of {claim.source}",
        state=states.get(verdict.outcome, JudgementState.OPEN),
        message=f"{verdict.outcome.value}: claimed {up(claim.epsilon)}, {proof}; {verdict.reason}",
        figures=figures,
    )
    widest = max(able, key=read_ceiling, default=None)
    far = [bound for bound in bounds_named if widest is not None and read_ceiling(bound) == read_ceiling(widest)]
    far = far or ([] if widest is None else [widest])
    reach = "; ".join(f"{down(read_ceiling(bound))} {_scope(bound)}" for bound in far) or "nothing"
    yield Judgement(
        rule="AU002",
        subject=mechanism.name,
        title=f"reach against the claim of {claim.source}",
        state=JudgementState.OPEN if verdict.outcome is Outcome.OUT_OF_REACH else JudgementState.HOLDS,
        message=f"perfect scores would have proven up to {reach}, claimed is {up(claim.epsilon)}",
        figures=figures,
    )


def _scope(bound: ReportedBound) -> str:
    """For which mechanisms a bound holds, in words that no figure of it may go without."""
    return "for any mechanism" if bound.family is None else f"inside the family {bound.family} only"


def _proof(bound: ReportedBound) -> str:
    reach = f"ceiling of its game {down(read_ceiling(bound))}"
    return f"{'void' if isinstance(bound, VoidBound) else 'proven'} {down(read_epsilon(bound))} {_scope(bound)} ({reach})"


def _figures(bound: ReportedBound) -> tuple[tuple[str, float], ...]:
    """A bound and its own ceiling under names that hold its family, and say of a void one that it is."""
    inside = "" if bound.family is None else f"_inside_{bound.family}"
    proven = "void_epsilon" if isinstance(bound, VoidBound) else "epsilon" if inside else "proven_epsilon"
    name = f"{proven}{inside}"
    return ((name, read_epsilon(bound)), (f"ceiling{inside}", read_ceiling(bound)))


def _check_findings(mechanism: MechanismResult) -> Iterator[Judgement]:
    states = {Status.CHECKED: JudgementState.HOLDS, Status.FAILED: JudgementState.FAILS}
    for check in mechanism.checks:
        yield Judgement(
            rule=f"DP/{slug(check.code)}",
            subject=mechanism.name,
            title=check.item,
            state=states.get(check.status, JudgementState.OPEN),
            message=f"{check.item}: {check.value} ({check.status.value})",
        )


def _source_finding(mechanism: MechanismResult, game: GameResult, source: headline.BoundSource) -> Iterator[Judgement]:
    subject = f"{mechanism.name}.{game.name}.{source.name}"
    if source.control is not None:
        control = source.control
        yield Judgement(
            rule="AU003",
            subject=subject,
            title="negative control",
            state=JudgementState.HOLDS if control.passed else JudgementState.FAILS,
            message=f"{control.false_alarms} false alarms in {control.repetitions} repetitions, {control.allowed} allowed",
            figures=(("false_alarms", control.false_alarms), ("allowed", control.allowed)),
        )
    claim = headline.tightest(mechanism)
    auc = None if source.result is None else source.result.auc
    area = "" if auc is None else f"; AUC {percent(auc)}, chance 50.0{SPACE}%"
    for bound in source.bounds:
        able = claim is not None and bound.delta == claim.delta and bound.family in (None, claim.family)
        above = able and claim is not None and read_epsilon(bound) > claim.epsilon
        against = f", claimed {up(claim.epsilon)}" if claim else ", nothing claimed"
        yield Judgement(
            rule="AU005",
            subject=subject,
            title=f"lower bound of {bound.estimator}",
            state=_state(able and not isinstance(bound, VoidBound), above),
            message=f"{_proof(bound)}{against}{area}",
            figures=(*_figures(bound), ("confidence", bound.confidence)),
        )


def _state(able: bool, above: bool) -> JudgementState:
    """Return how a bound is under a claim that it is able to refute; one that is not, or is void, decides nothing."""
    if not able:
        return JudgementState.OPEN
    return JudgementState.FAILS if above else JudgementState.HOLDS


def _policy_findings(report: AuditReport) -> Iterator[Judgement]:
    for gate in report.policy:
        value = "no figure" if gate.found is None else significant(gate.found)
        yield Judgement(
            rule=f"PO/{slug(gate.gate)}",
            subject="",
            title=gate.gate,
            state=JudgementState.HOLDS if gate.met else JudgementState.FAILS,
            message=f"{gate.gate}: found {value}, limit {significant(gate.limit)}",
        )


def _coverage_findings(report: AuditReport) -> Iterator[Judgement]:
    for row in report.coverage:
        yield Judgement(
            rule="AU004",
            subject="",
            title=row.attack_class,
            state=JudgementState.HOLDS if row.status == "run" else JudgementState.OPEN,
            message=f"{row.attack_class}: {row.status} ({row.done})",
        )
