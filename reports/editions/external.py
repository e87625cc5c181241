"""The external edition of a report: the answer, claims, bounds, and of each game one area and one rate in coarse steps.

Every field is written here by name (an allow-list): what is not named does not leave, whatever later versions of a report hold.
All formats draw the edition alone, so that none reveals more. What depends on who was a member goes through `FigureCount`,
which rounds it and counts the bits; what follows is proved in docs/theory/editions.md, "What an external edition tells".
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from audit.core.claims import Claim, NegativeControl, Outcome, Verdict
from audit.core.game_results import AttackResult, GameResult, GuessResult, Histogram, RocCurve, TprAtFpr
from audit.core.lower_bounds import LowerBound, ReportedBound, VoidBound, read_ceiling, read_epsilon, report_bound
from audit.core.phrases import Phrase, phrase
from audit.core.provenance import DataSummary, Engagement, Provenance
from audit.core.results import AuditReport, Check, Coverage, MechanismResult
from reports.answer import strongest_word
from reports.editions.facts import AREAS, RATES, FigureCount
from reports.formats._older_words import find_message
from reports.formats.json import to_json, without_messages
from reports.strength import ALLOWED_WORDS

MARK = "external edition"
WITHHELD = "withheld in this edition"
# in place of a title that is the name of a file
TITLES = {"model": "Audit of a trained model", "scores": "Audit of attack scores"}
TARGETS = (0.01, 0.1)  # false positive rates at which a rate may be stated: the first at which ten false positives are expected
EXPECTED_HITS = 10
# checks that are left out: scores and memberships decide them, or a text of the owner's names them
OF_MEMBERS = ("blind", "scores", "own")
# a bound is stated as at most this share of its ceiling: at the ceiling itself every guess would be known to be right
WITHIN_CEILING = 0.9
DECLARED = "system owner purpose release_context valid_until next_audit"  # what an owner says of the audit and may be read
REASONS = {
    Outcome.VIOLATED: "a bound lies above the claim",
    Outcome.CONSISTENT: "no bound lies above the claim, and one could have been",
    Outcome.OUT_OF_REACH: "even perfect scores would not have proved more than the claim",
    Outcome.INVALID: "the audit's own checks failed",
}


def external(report: AuditReport, title: str | None = None, epsilon: float | None = None) -> AuditReport:
    """Return the external edition, its own report and so marked; an external edition itself is returned as it is.

    Guarantee: its figures about members are functions of the memberships with together at most `2^bits` values, the number that
        its first note states. No record, seed, hash, file name, curve, threshold, count of a part below `SMALLEST_COUNT`, text
        of a configuration or figure of a single attack is in any field; its identifier follows from its own content alone.
        What the owner declares stays: title, names of trainings and games, claims, who answers for the system.

    Args:
        title: in place of the report's own; those of trained models and score tables are file names, and always replaced.
        epsilon: the edition's own, if the report's figures were computed from memberships that chance turned over; None if not.
    """
    if is_external(report):
        return report
    facts = FigureCount()
    name = (title or TITLES.get(report.kind, report.title)).removesuffix(f" ({MARK})")
    mechanisms = tuple(_mechanism(result, report.kind, facts) for result in report.mechanisms)
    edition = AuditReport(
        **_take(report, "schema kind delta confidence comparisons outcome"),
        id="",
        title=phrase("{title} (external edition)", title=name),
        created=f"{report.created[:10]}T00:00:00Z",
        data=None if report.data is None else _data(report.data, report.kind),
        model=_model(report),
        mechanisms=mechanisms,
        notes=(),
        coverage=tuple(Coverage(attack_class=row.attack_class, done="", status=row.status) for row in report.coverage),
        policy=(),
        config="",
        origins=(),
        provenance=_provenance(report.provenance),
        engagement=None if report.engagement is None else Engagement(**_take(report.engagement, DECLARED)),
    )
    edition = replace(edition, notes=statement(facts, records(report), epsilon))
    return replace(edition, id=f"PX-{hashlib.sha256(without_messages(to_json(edition))).hexdigest()[:8].upper()}")


def _take(part: object, names: str) -> dict[str, Any]:
    """Return the fields that an edition has as they are."""
    return {name: getattr(part, name) for name in names.split()}


def records(report: AuditReport) -> int:
    """Return how many memberships its games decided, in two digits."""
    return rounded_count(sum(game.game.canaries * game.game.runs for game in report.games))


def statement(facts: FigureCount, records: int, epsilon: float | None) -> tuple[str, ...]:
    """Return the statement of how little an edition reveals about so many memberships."""
    bits = math.ceil(facts.bits)
    own = (
        phrase(
            "Epsilon of this edition: {epsilon}. Before any figure here was computed, each membership was turned "
            "over by itself with a chance of {chance}. Whatever else a reader knows, the odds of one membership "
            "change by at most a factor of e^{own}; the proven bounds hold",
            epsilon=f"{epsilon:g}",
            chance=f"{1 / (1 + math.exp(epsilon)):.2%}",
            own=f"{epsilon:g}",
        )
        if epsilon is not None
        else ""
    )
    count = phrase(
        "This edition holds {figures} figures that depend on who was a member, in coarse steps: together at "
        "most {bits} bits about {records} memberships",
        figures=facts.figures,
        bits=bits,
        records=f"{records:,}",
    )
    return (own, count) if own else (count,)


def is_external(report: AuditReport) -> bool:
    """Return True for an external edition: of its title alone, which is the owner's, nothing follows."""
    bare = not (report.config or report.settings or report.config_lines or report.origins or report.provenance.config_sha256)
    has_mark = report.title.endswith(f"({MARK})") and report.id.startswith("PX-") and report.provenance.seed is None
    records = any(game.records or game.groups for game in report.games)
    if not (has_mark and bare and not records):
        return False
    return report.id == f"PX-{hashlib.sha256(without_messages(to_json(replace(report, id='')))).hexdigest()[:8].upper()}"


def _model(report: AuditReport) -> str:
    """Return the kind of model; its options may name a factory, and a trained one is described by its file and hash."""
    if report.kind == "run" and ":" in report.model:
        return phrase("a model of the owner's, {rest}", rest=_last_clause(report.model))
    return (
        phrase("trained elsewhere, {outputs}", outputs=_last_clause(report.model)) if report.kind == "model" else report.model
    )


def _last_clause(text: str) -> str:
    rest = text.values.get("rest") if isinstance(text, Phrase) else None
    return rest or find_message(text.rpartition(", ")[2])


def _data(data: DataSummary, kind: str) -> DataSummary:
    """Return kind and, of a run, sizes in two digits, which its configuration sets; sizes of given sides reveal members."""
    is_run = kind == "run"
    sizes: dict[str, Any] = {name: rounded_count(getattr(data, name)) if is_run else 0 for name in ("train", "pool", "test")}
    name = data.name if is_run else "records given"
    return DataSummary(name=name, source=WITHHELD, sha256="", **sizes, **_take(data, "classes features"))


def rounded_count(count: int) -> int:
    """Return a count in two digits.

    >>> rounded_count(1013), rounded_count(96)
    (1000, 96)
    """
    digits = max(0, len(str(count)) - 2)
    return int(round(count, -digits))


def _provenance(provenance: Provenance) -> Provenance:
    return Provenance(
        **_take(provenance, "version code_commit packages python"),
        command=" ".join(provenance.command.split()[:2]),
        seed=None,
        config_sha256="",
        platform="",
        device="",
        threads=0,
    )


def _mechanism(result: MechanismResult, kind: str, facts: FigureCount) -> MechanismResult:
    edition = _coarse_mechanism(result, kind, facts)
    games = [_agree_with_report(edition, *pair, result) for pair in zip(edition.games, result.games, strict=True)]
    return replace(edition, games=tuple(games))


def _agree_with_report(
    edition: MechanismResult, game: GameResult, full_game: GameResult, result: MechanismResult
) -> GameResult:
    """Return the game of an edition, its rate as unknown if by it the answer's word would say more than that of the report.

    The proof is never larger than the report's, so that the word says less then. The wide limits are values of the same grids.
    """
    if strongest_word(edition, game) in ALLOWED_WORDS[strongest_word(result, full_game)]:
        return game
    (row,) = game.attacks
    points = tuple(point if point.tpr is None else replace(point, lower=0.0, upper=1.0) for point in row.tpr_at)
    guesses = None if row.guesses is None else replace(row.guesses, lower=0.0, upper=1.0)
    roc = row.roc
    if points and points[0].tpr is not None:
        roc = _line(points[0], roc.confidence, roc.members, roc.nonmembers)
    return replace(game, attacks=(replace(row, tpr_at=points, guesses=guesses, roc=roc),))


def _coarse_mechanism(result: MechanismResult, kind: str, facts: FigureCount) -> MechanismResult:
    return MechanismResult(
        **_take(result, "claims outcome models"),
        name=result.name if kind == "run" else kind,
        mechanism=result.mechanism if kind == "run" else None,
        trajectories=(),
        bound_trajectories=(),
        games=tuple(game_edition(game, result.claims, kind, facts) for game in result.games),
        verdicts=tuple(_verdict(verdict, result.claims, facts) for verdict in result.verdicts),
        utility=(),
        checks=tuple(_check(check) for check in result.checks if check.code not in OF_MEMBERS),
        training=result.training if kind == "run" else "",
    )


def _check(check: Check) -> Check:
    """Return how an assumption of the training is, without the figures behind it."""
    return Check(code=check.code, item=check.item, value=WITHHELD, status=check.status)


def _verdict(verdict: Verdict, claims: Sequence[Claim], facts: FigureCount) -> Verdict:
    facts.one_of(2)  # void or not: all else follows from the bounds of the games, of which this one is the largest of its kind
    bound = None if verdict.bound is None else _bound(verdict.bound, claims, FigureCount())
    return Verdict(claim=verdict.claim, outcome=verdict.outcome, bound=bound, reason=REASONS[verdict.outcome])


def _bound(bound: ReportedBound, claims: Sequence[Claim], facts: FigureCount) -> ReportedBound:
    """Return the bound with an epsilon and a ceiling rounded down, each on its side of every claim."""
    value, ceiling = read_epsilon(bound), read_ceiling(bound)
    limits = [claim.epsilon for claim in claims]
    smaller_claims = [claim for claim in limits if claim < value]
    value = min(value, max([WITHIN_CEILING * ceiling, *(math.nextafter(claim, math.inf) for claim in smaller_claims)]))
    terms = _take(bound, "delta confidence estimator comparisons assumes family")
    rounded_bound = LowerBound(epsilon=facts.epsilon(value, limits), ceiling=facts.epsilon(ceiling, limits), **terms)
    return report_bound(rounded_bound, void=isinstance(bound, VoidBound))


def game_edition(result: GameResult, claims: Sequence[Claim], kind: str, facts: FigureCount) -> GameResult:
    """Return the game with one row in place of its attacks: their names, one area, one rate, the largest bound of each kind."""
    return GameResult(
        name=result.name if kind == "run" else kind,
        game=replace(result.game, canary=result.game.canary if kind == "run" else ""),
        attacks=(_attacks(result, claims, facts),) if result.attacks else (),
        models=result.models,
    )


def _attacks(result: GameResult, claims: Sequence[Claim], facts: FigureCount) -> AttackResult:
    best = max(result.attacks, key=lambda attack: attack.auc_or_zero)
    members, nonmembers = _sides(result, best, facts)
    target = next((fpr for fpr in TARGETS if fpr * nonmembers >= EXPECTED_HITS), TARGETS[-1])
    point = _rate(result, target, facts)
    return AttackResult(
        scorer=", ".join(attack.scorer for attack in result.attacks),
        auc=None if best.auc is None else facts.near(best.auc, AREAS),
        auc_lower=None if best.auc_lower is None else facts.down(best.auc_lower, AREAS),
        auc_upper=None if best.auc_upper is None else facts.up(best.auc_upper, AREAS),
        roc=_line(point, best.roc.confidence, members, nonmembers),
        tpr_at=(point,),
        histogram=Histogram(edges=(0.0, 1.0), members=(members,), nonmembers=(nonmembers,)),
        bounds=tuple(_bound(bound, claims, facts) for bound in _largest(result.bounds, facts)),
        control=_control(result.controls),
        guesses=_guesses(result.attacks, facts),
    )


def _sides(result: GameResult, attack: AttackResult, facts: FigureCount) -> tuple[int, int]:
    """Return the expected number of members and nonmembers if coins decided; else how many there were, in two digits."""
    rules = result.game
    if rules.choices == 1 and rules.inclusion == "coins":
        records = rules.canaries * rules.runs
        members = rounded_count(round(rules.inclusion_probability * records))
        return members, rounded_count(records - members)
    facts.one_of(90 * 7 + 10)
    facts.one_of(90 * 7 + 10)
    return rounded_count(attack.roc.members), rounded_count(attack.roc.nonmembers)


def _rate(result: GameResult, target: float, facts: FigureCount) -> TprAtFpr:
    """Return the largest rate of any attack at a target, in coarse steps; blank if none resolves it."""
    rows = [row for attack in result.attacks for row in attack.tpr_at if math.isclose(row.target_fpr, target)]
    best = max(rows, key=lambda row: -1.0 if row.tpr is None else row.tpr, default=None)
    facts.one_of(2)
    if best is None or best.tpr is None or best.lower is None or best.upper is None:
        return TprAtFpr.blank(target, None if best is None else best.allowed)
    return TprAtFpr(
        target_fpr=target,
        tpr=facts.near(best.tpr, RATES),
        realised_fpr=None,
        lower=facts.down(best.lower, RATES),
        upper=facts.up(best.upper, RATES),
        false_positives=None,
        true_positives=None,
        allowed=best.allowed,
    )


def _line(point: TprAtFpr, confidence: float, members: int, nonmembers: int) -> RocCurve:
    """Return the rate as the one inner point of a curve."""
    inner = [] if point.tpr is None else [(point.target_fpr, point.tpr, point.lower or 0.0, point.upper or 1.0)]
    fpr, tpr, lower, upper = zip((0.0, 0.0, 0.0, 1.0), *inner, (1.0, 1.0, 1.0, 1.0), strict=True)
    return RocCurve(
        fpr=fpr,
        tpr=tpr,
        lower=lower,
        upper=upper,
        confidence=confidence,
        band="one rate in coarse steps",
        members=members,
        nonmembers=nonmembers,
    )


def _largest(bounds: Iterable[ReportedBound], facts: FigureCount) -> list[ReportedBound]:
    """Return of each kind (any mechanism, each family) the largest bound."""
    kinds: dict[tuple[str, float], list[ReportedBound]] = {}
    for bound in bounds:
        kinds.setdefault((bound.family or "", bound.delta), []).append(bound)
    for rows in kinds.values():
        facts.one_of(len(rows))
    return [max(rows, key=read_epsilon) for rows in kinds.values()]


def _control(controls: Sequence[NegativeControl]) -> NegativeControl | None:
    """Return all negative controls as one: coins drawn anew say nothing of those that decided."""
    if not controls:
        return None
    return NegativeControl(
        repetitions=sum(control.repetitions for control in controls),
        false_alarms=sum(control.false_alarms for control in controls),
        allowed=sum(control.allowed for control in controls),
        passed=all(control.passed for control in controls),
    )


def _guesses(attacks: Sequence[AttackResult], facts: FigureCount) -> GuessResult | None:
    rows = [attack.guesses for attack in attacks if attack.guesses is not None]
    if not rows:
        return None
    best = max(rows, key=lambda row: row.right / max(row.secrets, 1))
    return GuessResult(
        secrets=best.secrets,
        right=round(facts.near(best.right / max(best.secrets, 1), AREAS) * best.secrets),
        lower=facts.down(best.lower, AREAS),
        upper=facts.up(best.upper, AREAS),
        baseline=facts.up(best.baseline, AREAS),  # never 0, beside which any guess would seem to show something
        imputed=None,
        allowed=best.allowed,
    )
