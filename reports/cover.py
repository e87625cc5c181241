"""The first page: verdict, three numbers, one sentence to quote, and what the same training gives away without protection."""

from __future__ import annotations

import math

from audit.core.game import Inclusion
from audit.core.results import AuditReport, LowerBound, MechanismResult, Outcome
from reports import reading, wording
from reports.blocks import Block, Box, Column, Mono, Number, Numbers, Paragraph, Quote, Signature, Strong, Table, Text, Tone
from reports.reading import Headline, Placed
from reports.rounding import SPACE, at_least, at_most, confidence, count, down, near, percent, plural, power, target, up


def cover(report: AuditReport) -> tuple[Block, ...]:
    """The blocks of the first page."""
    head = reading.headline(report)
    return (
        box(report, head),
        Numbers(items=numbers(report, head)),
        Quote(text=quotable(report, head)),
        *unprotected(report, head),
        identity(report),
        Signature(roles=wording.SIGNATURES),
    )


def box(report: AuditReport, head: Headline | None) -> Box:
    """The verdict, with every open note; green only where nothing is open."""
    if head is None:
        return Box(title=wording.NO_CLAIM, text=_measured(report), notes=report.notes, tone=Tone.PLAIN)
    outcome = head.verdict.outcome
    tone = wording.OUTCOMES[outcome][1]
    if tone is Tone.GOOD and (report.notes or not reading.passed(report)):
        tone = Tone.OPEN
    return Box(title=wording.VERDICTS[outcome], text=_sentence(report, head), notes=report.notes, tone=tone)


def quotable(report: AuditReport, head: Headline | None) -> str:
    """One sentence that stays true when it is quoted alone.

    It names the training, the claim with its δ, the proof with its confidence and assumption, and the ceiling.
    """
    if head is None:
        return _measured_text(report)
    claim, name = head.verdict.claim, head.mechanism.name
    said = f"For the training “{name}” {at_most(claim.epsilon)} is claimed at δ{SPACE}={SPACE}{power(claim.delta)} ({claim.source})"
    if head.verdict.outcome is Outcome.INVALID:
        return f"{said}; this audit is void, because {head.verdict.reason}."
    proof = _proof(report, head.proven)
    reach = f"it could have proven up to ε{SPACE}={SPACE}{down(head.ceiling)}"
    match head.verdict.outcome:
        case Outcome.VIOLATED:
            return f"{said}; this audit proves {proof}, so the claim is contradicted."
        case Outcome.OUT_OF_REACH:
            return f"{said}; this audit proves {proof} and {reach}, so it could not have contradicted the claim."
        case _:
            return f"{said}; this audit proves {proof} and {reach}; the claim was not contradicted."


def numbers(report: AuditReport, head: Headline | None) -> tuple[Number, ...]:
    """Claimed, proven, ceiling; for a report without a claim what was measured instead."""
    if head is None:
        return _measured_numbers(report)
    claim, proven = head.verdict.claim, head.proven
    at = f"at δ{SPACE}={SPACE}{power(claim.delta)}"
    return (
        Number(
            label="Claimed ε, at most",
            value="none" if claim.epsilon == math.inf else up(claim.epsilon),
            detail=f"{at}, per {claim.unit}; {claim.source}",
            tone=Tone.CLAIM,
        ),
        _proven_number(report, head.mechanism, proven, at),
        Number(
            label="Ceiling of this audit",
            value=down(head.ceiling),
            detail="the most that perfect scores would have proven",
            tone=Tone.CHANCE,
        ),
    )


def unprotected(report: AuditReport, head: Headline | None) -> tuple[Block, ...]:
    """What trainings without a claim give away, beside the one the cover speaks of."""
    if head is None:
        return ()
    said: list[Block] = []
    for one in reading.unclaimed(report):
        best = reading.free(one) or reading.in_family(one)
        if best is None:
            continue
        sides = [
            f"{_rate(one, 0.01)} under “{one.name}”",
            f"{_rate(head.mechanism, 0.01, best.game.name)} under “{head.mechanism.name}”",
        ]
        text: Text = (
            Strong("Without protection. "),
            f"The same training under “{one.name}”, for which nothing is claimed, is shown to leak: {_proof(report, best)} "
            f"(attack {best.attack.scorer}, game {best.game.name}). At 1{SPACE}% false positives attacks in that game find "
            f"{' and '.join(sides)}.",
        )
        said.append(Paragraph(text=text))
    return tuple(said)


def identity(report: AuditReport) -> Table:
    """What was audited, when, and under which digests."""
    data = report.data
    rows: list[tuple[Text, ...]] = [
        ("Subject", _subject(report)),
        ("Started", (report.created.replace("T", " ").replace("Z", " UTC"),)),
    ]
    if data is not None:
        sizes = [f"{count(n)} {word}" for n, word in ((data.train, "train"), (data.pool, "pool"), (data.test, "test")) if n]
        rows.append(("Data", f"{data.name} ({data.source}); {', '.join(sizes)}"))
        rows.append(("Data, sha256", Mono(data.sha256)))
    rows.append(("Configuration, sha256", Mono(report.provenance.config_sha256)))
    rows.append(
        ("Written by", f"audit {report.provenance.version}, code {report.provenance.code_commit[:12] or 'not recorded'}")
    )
    if report.policy:
        met = sum(gate.met for gate in report.policy)
        rows.append(("Release policy", f"{met} of {plural(len(report.policy), 'gate')} met"))
    return Table(caption="", columns=(Column(title="This report", share=0.26), Column(title="", share=0.74)), rows=tuple(rows))


def _subject(report: AuditReport) -> str:
    words = {"run": "Trainings run and audited here", "model": "A trained model, as given", "scores": "Attack scores, as given"}
    return f"{words.get(report.kind, report.kind)}: {report.model}"


def _sentence(report: AuditReport, head: Headline) -> Text:
    claim = head.verdict.claim
    source = f" ({claim.source})"
    text = (
        f"For “{head.mechanism.name}” the claim is {at_most(claim.epsilon)} at δ{SPACE}={SPACE}{power(claim.delta)}{source}. "
    )
    match head.verdict.outcome:
        case Outcome.INVALID:
            return f"{text}The evidence cannot be used: {head.verdict.reason}."
        case Outcome.OUT_OF_REACH:
            ending = (
                f"Even perfect scores would have proven no more than ε{SPACE}={SPACE}{down(head.ceiling)}: "
                "this audit could not have failed, and says nothing for or against the claim."
            )
            return f"{text}{ending}"
        case Outcome.VIOLATED:
            return f"{text}The attacks prove {_proof(report, head.proven)}: more than the claim allows."
        case _:
            return (
                f"{text}The attacks prove {_proof(report, head.proven)}. They could have proven up to "
                f"ε{SPACE}={SPACE}{down(head.ceiling)}, so the claim could have been contradicted, and was not."
            )


def _proof(report: AuditReport, proven: Placed | None) -> str:
    if proven is None:
        return "nothing"
    inside = f" inside the family {_family(proven.bound)}" if proven.bound.family else ""
    return f"{at_least(proven.bound.epsilon)}{inside} with {confidence(report.confidence)} confidence"


def _proven_number(report: AuditReport, mechanism: MechanismResult, proven: Placed | None, at: str) -> Number:
    if proven is None:
        return Number(label="Proven ε, at least", value="none", detail="no bound could be computed", tone=Tone.MEASURED)
    bound = proven.bound
    kind = f"inside {_family(bound)}" if bound.family else "for any mechanism"
    detail = f"{at}, {confidence(report.confidence)} confidence; {kind}"
    other = reading.free(mechanism) if bound.family else reading.in_family(mechanism)
    if other is not None and bound.family:
        detail += f"; {down(other.bound.epsilon)} for any mechanism"
    elif other is not None and other.bound.epsilon > bound.epsilon:
        detail += f"; {down(other.bound.epsilon)} inside {_family(other.bound)}"
    return Number(label="Proven ε, at least", value=down(bound.epsilon), detail=detail, tone=Tone.MEASURED)


def _family(bound: LowerBound) -> str:
    return wording.FAMILIES.get(bound.family or "", bound.family or "")


def _rate(mechanism: MechanismResult, rate: float, game: str | None = None) -> str:
    games = [one for one in mechanism.games if game is None or one.name == game]
    found = [pair for one in games if (pair := reading.rate_at(one, rate)) is not None]
    if not found:
        return "a share that was not measured"
    return f"{percent(max(pair[1].tpr or 0.0 for pair in found))} of the members"


def _measured(report: AuditReport) -> Text:
    return _measured_text(report)


def _measured_text(report: AuditReport) -> str:
    """What was measured where nobody claimed anything."""
    said = []
    for mechanism in report.mechanisms:
        found = _finest(mechanism)
        if found:
            attack, rate, value, low, high = found
            said.append(
                f"At {target(rate)} false positives the attack “{attack}” finds {percent(value)} of the members of “{mechanism.name}” "
                f"(interval {percent(low, side='down')} to {percent(high, side='up')})."
            )
        best = reading.free(mechanism) or reading.in_family(mechanism)
        if best is not None:
            said.append(f"It is proven that {_proof(report, best)} at δ{SPACE}={SPACE}{power(report.delta)}.")
    if not reading.has_coins(report):
        said.append(
            "No ε follows from these figures: membership was decided by a data split and not by recorded coins, so a "
            "difference between the two parts cannot be told from leakage with a stated error rate."
        )
    return " ".join(said) or "Nothing was measured."


def _finest(mechanism: MechanismResult) -> tuple[str, float, float, float, float] | None:
    """The smallest false positive rate with at least ten expected false positives, and the best attack there."""
    rates = sorted({one.target_fpr for game in mechanism.games for attack in game.attacks for one in attack.tpr_at})
    for rate in rates:
        found = [pair for game in mechanism.games if (pair := reading.rate_at(game, rate)) is not None]
        solid = [pair for pair in found if pair[0].roc.nonmembers * rate >= 10]
        if solid:
            attack, one = max(solid, key=lambda pair: pair[1].tpr or 0.0)
            return attack.scorer, rate, one.tpr or 0.0, one.lower or 0.0, 1.0 if one.upper is None else one.upper
    return None


def _measured_numbers(report: AuditReport) -> tuple[Number, ...]:
    mechanism = report.mechanisms[0] if report.mechanisms else None
    attacks = [attack for game in mechanism.games for attack in game.attacks] if mechanism else []
    found = _finest(mechanism) if mechanism else None
    best = reading.free(mechanism) if mechanism else None
    strongest = max(attacks, key=lambda one: one.auc, default=None)
    split = bool(mechanism) and not reading.has_coins(report)
    return (
        Number(
            label="Members found" if found is None else f"Members found at {target(found[1])} FPR",
            value="none" if found is None else percent(found[2]),
            detail="not resolved"
            if found is None
            else f"{percent(found[3], side='down')} to {percent(found[4], side='up')}; attack {found[0]}",
            tone=Tone.MEASURED,
        ),
        Number(
            label="AUC of that game" if strongest is None else "Largest AUC",
            value="none" if strongest is None else near(strongest.auc, 3),
            detail="no attack" if strongest is None else f"attack {strongest.scorer}; one half is chance",
            tone=Tone.MEASURED,
        ),
        Number(
            label="Proven ε, at least",
            value="none" if best is None else down(best.bound.epsilon),
            detail="a split proves no ε"
            if split
            else f"at δ{SPACE}={SPACE}{power(report.delta)}, {confidence(report.confidence)} confidence",
            tone=Tone.CHANCE if best is None else Tone.MEASURED,
        ),
    )


def decided_by_coins(mechanism: MechanismResult) -> bool:
    """True where every game of the mechanism drew recorded coins."""
    return all(game.game.inclusion is Inclusion.COINS for game in mechanism.games)
