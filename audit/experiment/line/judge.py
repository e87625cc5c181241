"""From bounds and checks to a verdict. Pure functions; nothing here can say "safe"."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from audit.core.claims import Claim, Outcome, Verdict
from audit.core.events import Event
from audit.core.game import Inclusion
from audit.core.lower_bounds import ReportedBound, read_ceiling, read_epsilon, report_bound, report_trajectory
from audit.core.phrases import join_clauses, phrase
from audit.core.preflight import Preflight
from audit.core.results import Check, MechanismResult, Metric, Status, Trajectory
from audit.core.rounding import PLACES, down, places_apart, up
from audit.experiment.games.hypothesis import StatedClaims
from audit.experiment.line.game import GameOutcome

SPLIT_REASON = "membership was decided by a data split, not by recorded coins, so no epsilon can be proven or refuted"
SEVERITY = (Outcome.CONSISTENT, Outcome.OUT_OF_REACH, Outcome.INVALID, Outcome.VIOLATED)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Training:
    """What is known of one training in addition to its games.

    Attributes:
        mechanism: what is claimed to have been run; None if no one says.
        trajectories: what accountants charge over the steps.
        checks: rows of the assumptions table that no game decides.
        doubt: why no figure of its games can be believed, "" if they can.
        counted: whether its models are its own; those that another party's row counts are not counted again.
        shared: name of the training that several parties look at; "" if there is one.
        preflight: how what was given was read; its doubt is part of `doubt`.
    """

    name: str
    mechanism: Event | None
    stated_claims: StatedClaims
    trajectories: tuple[Trajectory, ...] = ()
    utility: tuple[Metric, ...] = ()
    checks: tuple[Check, ...] = ()
    doubt: str = ""
    counted: bool = True
    shared: str = ""
    preflight: Preflight | None = None


def conclude(training: Training, games: Sequence[GameOutcome]) -> MechanismResult:
    """Bounds of all games compared with each claim, with everything else that is known of the training."""
    bounds = [bound for game in games for bound in game.bounds]
    evidence_valid = not training.doubt and all(control.passed for game in games for control in game.result.controls)
    checks = _merge([*(check for game in games for check in game.checks), *training.checks])
    execution_valid = all(check.status is not Status.FAILED for check in checks)
    inside = not outside_families(checks)
    noise_checks = _merge([check for game in games for check in game.noise_checks])

    def judge_claims(execution_valid: bool) -> tuple[Verdict, ...]:
        return tuple(
            judge(claim, bounds, evidence_valid=evidence_valid, execution_valid=execution_valid, inside=inside)
            for claim in training.stated_claims.claims
        )

    verdicts = judge_claims(execution_valid)
    violated = any(verdict.outcome is Outcome.VIOLATED for verdict in verdicts)
    checks = (*checks, *(check for check in noise_checks if not violated or check.status is not Status.FAILED))
    if not violated and any(check.status is Status.FAILED for check in noise_checks):
        verdicts = judge_claims(False)
    by_coins = any(game.result.game.inclusion is Inclusion.COINS for game in games)
    reason = training.doubt or ("" if by_coins else SPLIT_REASON)
    verdicts = tuple(replace(verdict, reason=reason) for verdict in verdicts) if reason else verdicts
    outcome = _outcome(training, games, verdicts)
    void = outcome is Outcome.INVALID or not evidence_valid
    curves = [row for game in games for row in game.trajectories]
    return MechanismResult(
        name=training.name,
        mechanism=training.mechanism,
        claims=training.stated_claims.claims,
        trajectories=training.trajectories,
        bound_trajectories=tuple(
            report_trajectory(curve, family, void=void) for family, curve in curves if inside or family is None
        ),
        games=tuple((game.result if inside else game.result.for_any_mechanism()).type_bounds(void=void) for game in games),
        verdicts=type_bounds(verdicts, void=void),
        outcome=outcome,
        utility=training.utility,
        checks=checks,
        models=sum(game.result.models for game in games) if training.counted else 0,
        limit=training.stated_claims.limit,
        training=training.shared,
        preflight=training.preflight,
    )


def type_bounds(verdicts: Sequence[Verdict], *, void: bool) -> tuple[Verdict, ...]:
    """Return verdicts with their bounds as a report has them, of an audit that is void or not."""
    rows = [(row, None if row.bound is None else report_bound(row.bound, void=void)) for row in verdicts]
    return tuple(replace(row, bound=bound) for row, bound in rows)


def _outcome(training: Training, games: Sequence[GameOutcome], verdicts: Sequence[Verdict]) -> Outcome | None:
    """Return the outcome of the verdicts, unless nothing can be believed or, without a claim, no attack could be played."""
    if training.doubt:
        return Outcome.INVALID
    if not any(game.result.attacks for game in games):
        return Outcome.OUT_OF_REACH
    return conclude_mechanism(verdicts)


def _merge(checks: Sequence[Check]) -> tuple[Check, ...]:
    """One row per check over all games: the first failed one, else the first."""
    rows: dict[str, Check] = {}
    for check in checks:
        if check.code not in rows or (check.status is Status.FAILED and rows[check.code].status is not Status.FAILED):
            rows[check.code] = check
    return tuple(rows.values())


def judge(
    claim: Claim, bounds: Sequence[ReportedBound], *, evidence_valid: bool, execution_valid: bool = True, inside: bool = True
) -> Verdict:
    """The verdict on one claim, by bounds with the same delta and adjacency.

    VIOLATED if an admissible bound is above the claim; INVALID if a negative control failed, or where nothing was refuted but
    the run was not the accounted one; OUT_OF_REACH if no admissible bound could have exceeded the claim; else CONSISTENT.

    Args:
        evidence_valid: every negative control passed.
        execution_valid: no check of what was run against what was accounted for has failed.
        inside: nor has one that shows the run to be outside of the families of trade-off curves (`outside_families`); else
            bounds inside a family decide nothing and their epsilon is not stated: it would not be the run's.
    """
    able = [bound for bound in bounds if claim.can_be_refuted_by(bound)]
    admissible = [bound for bound in able if inside or bound.family is None]
    best = _deciding(claim, admissible)
    reach = max((read_ceiling(bound) for bound in admissible), default=0.0)
    if not evidence_valid:
        return Verdict(
            claim=claim, outcome=Outcome.INVALID, bound=best, reason="the negative control found more than chance allows"
        )
    if best is not None and read_epsilon(best) > claim.epsilon:
        return Verdict(claim=claim, outcome=Outcome.VIOLATED, bound=best, reason=_above(claim, best))
    if not execution_valid:
        reason = "what was run is not what was accounted for"
        curves = sorted({_curve(bound.family) for bound in able if bound.family and read_epsilon(bound) > claim.epsilon})
        if curves:
            reason = phrase(
                "what was run is not what was accounted for; its scores do not fit {curves} either, which says nothing of the "
                "claimed epsilon",
                curves=join_clauses(curves, "{first} or {rest}"),
            )
        return Verdict(claim=claim, outcome=Outcome.INVALID, bound=best, reason=reason)
    if not admissible:
        reason = "no bound was computed that could have refuted the claim"
        return Verdict(claim=claim, outcome=Outcome.OUT_OF_REACH, bound=None, reason=reason)
    ceiling = _reach(claim, admissible)
    if reach <= claim.epsilon:
        reason = phrase(
            "even perfect scores would have proved at most {ceiling}, so this audit could not have refuted the claim",
            ceiling=ceiling,
        )
        return Verdict(claim=claim, outcome=Outcome.OUT_OF_REACH, bound=best, reason=reason)
    reason = phrase("no bound lies above the claim; perfect scores would have proved up to {ceiling}", ceiling=ceiling)
    return Verdict(claim=claim, outcome=Outcome.CONSISTENT, bound=best, reason=reason)


def outside_families(checks: Sequence[Check]) -> bool:
    """True if a failed check shows that no member of a family is what was run; noise of another size is another member's."""
    return any(check.status is Status.FAILED and check.code != "noise" for check in checks)


def _deciding(claim: Claim, bounds: Sequence[ReportedBound]) -> ReportedBound | None:
    """The bound to judge by: one for any mechanism if it refutes the claim, else the largest."""
    free = [bound for bound in bounds if bound.family is None and read_epsilon(bound) > claim.epsilon]
    return max(free or bounds, key=read_epsilon, default=None)


def conclude_mechanism(verdicts: Sequence[Verdict]) -> Outcome | None:
    """The outcome for a mechanism: any refuted or invalid claim decides, else the tightest claim; None without claims."""
    outcomes = {verdict.outcome for verdict in verdicts}
    for decisive in (Outcome.VIOLATED, Outcome.INVALID):
        if decisive in outcomes:
            return decisive
    tightest = min(verdicts, key=lambda verdict: verdict.claim.epsilon, default=None)
    return None if tightest is None else tightest.outcome


def worst(outcomes: Sequence[Outcome | None]) -> Outcome | None:
    """The outcome of a whole report: the gravest of its mechanisms'; None if nothing was claimed.

    >>> worst([Outcome.CONSISTENT, None, Outcome.OUT_OF_REACH])
    <Outcome.OUT_OF_REACH: 'out_of_reach'>
    """
    outcomes_stated = [outcome for outcome in outcomes if outcome is not None]
    return max(outcomes_stated, key=SEVERITY.index, default=None)


def exit_code(outcome: Outcome | None, policy_holds: bool) -> int:
    """Return what the command answers: 1 for a finding, 3 if nothing could be tested, else 0."""
    if not policy_holds:
        return 1
    return 0 if outcome is None else outcome.exit_code


def _above(claim: Claim, bound: ReportedBound) -> str:
    """Return what a bound above the claim shows; inside a family that is the claimed curve refuted, not an epsilon proved."""
    places = places_apart([(claim.epsilon, read_epsilon(bound))])
    proven, claimed = down(read_epsilon(bound), places), up(claim.epsilon, places)
    if bound.family is None:
        return phrase(
            "{estimator} proves epsilon of at least {epsilon} at confidence {confidence}, above the claimed {claim}",
            estimator=bound.estimator,
            epsilon=proven,
            confidence=f"{bound.confidence:.6g}",
            claim=claimed,
        )
    refutation = phrase(
        "{estimator} refutes {curve} at confidence {confidence}",
        estimator=bound.estimator,
        curve=_curve(bound.family),
        confidence=f"{bound.confidence:.6g}",
    )
    parameter = _parameter(bound)
    inside = phrase(
        "inside the family '{family}', and only there, that is an epsilon of at least {epsilon}, above the claimed {claim}",
        family=bound.family,
        epsilon=proven,
        claim=claimed,
    )
    return join_clauses((join_clauses((refutation, parameter), "{first}: {rest}") if parameter else refutation, inside))


def _curve(family: str) -> str:
    names = {"gdp": "the claimed curve of Gaussian DP", "dp_sgd": "the claimed curve of DP-SGD"}
    return names.get(family, phrase("the claimed curve of the family '{family}'", family=family))


def _parameter(bound: ReportedBound) -> str:
    if bound.parameter is None:
        return ""
    if bound.family == "gdp":
        return phrase("mu at least {value}", value=down(bound.parameter, PLACES))
    noise = f"{math.ceil(bound.parameter * 1000) / 1000:.3f}"
    return phrase("effective noise multiplier at most {value}", value=noise)


def _reach(claim: Claim, bounds: Sequence[ReportedBound]) -> str:
    """Return the most that perfect scores would have proved, with the family inside which alone they would have."""
    widest = max(bounds, key=read_ceiling)
    places = places_apart([(claim.epsilon, read_ceiling(widest))])
    ceiling = down(read_ceiling(widest), places)
    return phrase("{ceiling} inside the family '{family}'", ceiling=ceiling, family=widest.family) if widest.family else ceiling
