"""The first page: answer, verdicts, three numbers, one sentence to quote, the evidence at a glance, who answers for it."""

from __future__ import annotations

import math
from collections import Counter

from audit.core.claims import LowerBound, Outcome
from audit.core.results import AuditReport, Engagement, MechanismResult, Status
from audit.core.rounding import SPACE, at_delta, at_most, confidence, count, down, epsilon, percent, up
from reports import headline
from reports.figures import _plots
from reports.formats import figures
from reports.headline import GameBound, Headline
from reports.pages import verdict, without_claim
from reports.pages.blocks import (
    Block,
    Column,
    Mark,
    Mono,
    Number,
    Numbers,
    Paragraph,
    Quote,
    Strong,
    Table,
    Text,
    Tone,
)
from reports.words import en
from reports.words.phrases import figure_block, join_words, proof


def cover(report: AuditReport) -> tuple[Block, ...]:
    """The blocks of the first page."""
    head = headline.headline(report)
    drawing = figures.drawings(report).get(picture(report))
    return (
        *((Paragraph(text=(Mark(en.INTERNAL_MARK, Tone.BAD), en.INTERNAL_REASON)),) if names_records(report) else ()),
        verdict.verdict(report),
        verdict.facts(report, head, claim(report, head)),
        Numbers(items=without_claim.numbers(report) if head is None else numbers(report, head)),
        Quote(text=without_claim.sentence(report) if head is None else quotable(report, head)),
        *(() if drawing is None else (figure_block(drawing),)),
    )


def names_records(report: AuditReport) -> bool:
    """True where a table tells something of a single record, under whatever name."""
    games = [game for result in report.mechanisms for game in result.games]
    return any(game.records or (game.evaluation is not None and game.evaluation.records) for game in games)


def picture(report: AuditReport) -> str:
    """The drawing of the first page: claim and evidence, or where nothing was bounded the ROC of the first game."""
    if any(True for mechanism in report.mechanisms for _ in headline.game_bounds(mechanism)):
        return "overview"
    games = [(mechanism.name, game.name) for mechanism in report.mechanisms for game in mechanism.games if game.attacks]
    return _plots.file_name("roc", *games[0]) if games else ""


def claim(report: AuditReport, head: Headline | None) -> Text:
    """How the claim stands; marked as open where a note is."""
    if head is None:
        return (Strong(f"{en.NO_CLAIM}. "), without_claim.reason(report))
    outcome = head.verdict.outcome
    tone = Tone.OPEN if outcome is Outcome.CONSISTENT and report.notes else en.OUTCOMES[outcome][1]
    return (Mark(en.VERDICTS[outcome], tone), f". {_in_words(head)}")


def _in_words(head: Headline) -> str:
    match head.verdict.outcome:
        case Outcome.INVALID:
            sentence = f"The evidence cannot be used: {head.verdict.reason}. Neither the claim nor its opposite follows."
        case Outcome.OUT_OF_REACH:
            sentence = (
                f"Even perfect scores would have proven no more than {epsilon(down(head.ceiling))}, less than is "
                "claimed. This audit could not have failed, so it says nothing for or against the claim."
            )
        case Outcome.VIOLATED:
            sentence = _refutation(head.verdict.bound)
        case Outcome.CONSISTENT:
            sentence = (
                "The attacks listed here prove less than is claimed, and they were able to prove more. That is evidence for "
                "the claim, not a proof of it: a stronger attack may exist."
            )
    return f"{sentence}{_assumptions(head.mechanism)}"


def _refutation(bound: LowerBound | None) -> str:
    """What a refuted claim means: for a bound inside a family the curve that was claimed, not an epsilon of the run."""
    if bound is None or bound.family is None:
        return (
            "The attacks prove more than the claim allows. Either the training does not do what was claimed, or the claim "
            "is wrong."
        )
    return (
        f"The scores refute the claimed curve of {en.family(bound.family)}: the training is not the mechanism that was "
        "claimed, or the claim is wrong. The figure below is an epsilon inside that family, not one proven for whatever was "
        "run."
    )


def _assumptions(mechanism: MechanismResult) -> str:
    """How many of the assumptions stand on a test, so that a good verdict cannot hide those that do not."""
    stand = Counter(check.status for check in mechanism.checks)
    words = {
        Status.FAILED: "failed",
        Status.GAP: "open",
        Status.DECLARED: "declared by the owner",
        Status.CHECKED: "checked by this audit",
    }
    assumptions = [f"{stand[status]} {word}" for status, word in words.items() if stand[status]]
    if set(stand) <= {Status.CHECKED}:
        return ""
    return f" What the claim rests on: {join_words(assumptions[::-1])}."


def quotable(report: AuditReport, head: Headline) -> str:
    """One sentence that stays true when it is quoted alone.

    It names the training, the claim with its δ, the attack, the proof with its confidence and assumption, and the ceiling of
    the same game.
    """
    claim = head.verdict.claim
    sentence = (
        f"For the training “{head.mechanism.name}” {at_most(claim.epsilon)} is claimed {at_delta(claim.delta)} "
        f"per {claim.unit} ({claim.source})"
    )
    if head.verdict.outcome is Outcome.INVALID:
        return f"{sentence}; this audit is void: {head.verdict.reason}."
    if head.proven is None:
        return f"{sentence}; this audit computed no bound that could contradict it."
    evidence = f"the attack {head.proven.attack} proves {proof(report, head.proven)}"
    reach = f"could have proven up to {epsilon(down(head.proven.bound.ceiling))}"
    match head.verdict.outcome:
        case Outcome.VIOLATED:
            return f"{sentence}; {evidence}, so the claim is contradicted."
        case Outcome.OUT_OF_REACH:
            return f"{sentence}; {evidence} and {reach}, so this audit could not have contradicted the claim."
        case _:
            return f"{sentence}; {evidence} and {reach}; the claim was not contradicted."


def numbers(report: AuditReport, head: Headline) -> tuple[Number, ...]:
    """Claimed, proven, ceiling."""
    claim = head.verdict.claim
    at = at_delta(claim.delta)
    void = head.verdict.outcome is Outcome.INVALID
    return (
        Number(
            label="Claimed ε, at most",
            value="∞" if claim.epsilon == math.inf else up(claim.epsilon),
            detail=f"{at}, per {claim.unit}. Source: {claim.source}",
            tone=Tone.CLAIM,
        ),
        _proof_number(report, head.mechanism, head.proven, at, void),
        Number(
            label="Ceiling of that game",
            value="none" if head.proven is None else down(head.proven.bound.ceiling),
            detail=f"{at}. The most that perfect scores would have proven in the game of that bound{_other_ceiling(head)}",
            tone=Tone.CHANCE,
        ),
    )


def _proof_number(report: AuditReport, mechanism: MechanismResult, source: GameBound | None, at: str, void: bool) -> Number:
    if source is None:
        return Number(label="Proven ε, at least", value="none", detail="No bound could be computed", tone=Tone.MEASURED)
    bound = source.bound
    label = "ε inside a family, at least" if bound.family else "Proven ε, at least"
    detail = f"{at}, {confidence(report.confidence)} confidence, {_scope(bound)}. Attack: {source.attack}"
    counterpart = _counterpart(mechanism, source)
    if counterpart is not None:
        detail += f". {_capital(_scope(counterpart.bound))}: {down(counterpart.bound.epsilon)}"
    if void:
        return Number(label="Not proven: the audit is void", value=down(bound.epsilon), detail=detail, tone=Tone.CHANCE)
    return Number(label=label, value=down(bound.epsilon), detail=detail, tone=Tone.MEASURED)


def _other_ceiling(head: Headline) -> str:
    """The ceiling of the other bound that the second number names."""
    counterpart = _counterpart(head.mechanism, head.proven)
    return "" if counterpart is None else f"; {down(counterpart.bound.ceiling)} {_scope(counterpart.bound)}"


def _counterpart(mechanism: MechanismResult, source: GameBound | None) -> GameBound | None:
    """The bound beside the proven one: for any mechanism where that is inside a family, else a larger one inside a family."""
    if source is None:
        return None
    if source.bound.family:
        return headline.free(mechanism)
    inside = headline.in_family(mechanism)
    return inside if inside is not None and inside.bound.epsilon > source.bound.epsilon else None


def _scope(bound: LowerBound) -> str:
    return f"inside {en.family(bound.family)}" if bound.family else "for any mechanism"


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def unprotected_blocks(report: AuditReport, head: Headline) -> tuple[Block, ...]:
    """What trainings without a claim give away, beside the one the cover speaks of."""
    blocks: list[Block] = []
    for mechanism in headline.without_claims(report):
        best = headline.free(mechanism) or headline.in_family(mechanism)
        if best is None:
            continue
        sides = [_rate(mechanism, best.game.name), _rate(head.mechanism, best.game.name)]
        comparison = (
            f" At 1{SPACE}% false positives the best attack of that game finds {sides[0]} of the members under "
            f"“{mechanism.name}” and {sides[1]} under “{head.mechanism.name}”."
            if None not in sides
            else ""
        )
        text: Text = (
            Strong("Without protection. "),
            f"The same training as “{mechanism.name}”, for which nothing is claimed, is shown to leak: {proof(report, best)} "
            f"(game {best.game.name}, attack {best.attack}).{comparison}",
        )
        if best.bound.epsilon > 0:
            blocks.append(Paragraph(text=text))
    return tuple(blocks)


def _rate(mechanism: MechanismResult, name: str) -> str | None:
    rates = [pair for game in mechanism.games if game.name == name and (pair := headline.rate_at(game, 0.01)) is not None]
    return percent(max(pair[1].tpr or 0.0 for pair in rates)) if rates else None


def identity(report: AuditReport) -> Table:
    """What was audited, on which data, when and by which version."""
    words = {"run": "Trained and audited here", "model": "A trained model, as given", "scores": "Attack scores, as given"}
    rows: list[tuple[Text, ...]] = [(words.get(report.kind, report.kind), report.model)]
    if report.data is not None:
        data = report.data
        sizes = [f"{count(n)} {word}" for n, word in ((data.train, "train"), (data.pool, "pool"), (data.test, "test")) if n]
        rows.append(("Data", f"{data.name} ({data.source}): {', '.join(sizes)}"))
    start = report.created.replace("T", " ").replace("Z", " UTC")
    rows.append(("Report", (Mono(report.id), f", started {start}, audit {report.provenance.version}")))
    rows += _engagement(report)
    return Table(caption="", columns=(Column(title="Subject", share=0.26), Column(title="", share=0.74)), rows=tuple(rows))


def _engagement(report: AuditReport) -> list[tuple[Text, ...]]:
    """What the owner declares of the audit; the release context is named as missing where nobody states it."""
    engagement = report.engagement or Engagement()
    statements = {
        "System": engagement.system,
        "Owner": engagement.owner,
        "Purpose": engagement.purpose,
        "Release context": engagement.release_context or "not declared",
        "Auditor": engagement.auditor,
        "Reviewer": engagement.reviewer,
        "Valid until": engagement.valid_until,
        "Next audit": engagement.next_audit,
    }
    return [(name, value) for name, value in statements.items() if value]
