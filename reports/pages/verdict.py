"""The answer of the first page in words, and the facts that it stands on."""

from __future__ import annotations

from audit.core.access import Access
from audit.core.results import AuditReport
from audit.core.rounding import NOTHING, confidence, count, down, rate, significant, target, up
from reports import answer, headline
from reports.answer import Answer, Strength
from reports.headline import Headline, Placed
from reports.pages.blocks import Facts, Mark, Strong, Text, Tone, Verdict
from reports.words import en
from reports.words.language import say

TONES = {
    Strength.YES: Tone.MEASURED,
    Strength.LITTLE: Tone.MEASURED,
    Strength.NOT_SHOWN: Tone.PLAIN,
    Strength.VOID: Tone.OPEN,
}
_SEEN = {
    Access.LABEL_ONLY: "label_only",
    Access.FINAL_MODEL: "final_model",
    Access.FINAL_WEIGHTS: "final_weights",
    Access.ALL_STEPS: "all_steps",
}


def verdict(report: AuditReport) -> Verdict:
    """The answer for the least access that was tried, and in a word for those who see more."""
    every = answer.answers(report)
    if not every:
        return Verdict(
            question=say("question.none"), word=say("answer.no answer"), text=(say("answer.nothing"),), tone=Tone.PLAIN
        )
    first, more = every[0], every[1:]
    paragraphs: list[Text] = [_joined(sentences(report, first))]
    for other in more:
        said = say("answer.other", question=question(other.access), strength=say(f"answer.{other.strength.value}"))
        paragraphs.append((Strong(said), " ", _joined(sentences(report, other))))
    return Verdict(
        question=question(first.access),
        word=say(f"answer.{first.strength.value}"),
        text=tuple(paragraphs),
        tone=TONES[first.strength],
    )


def _joined(said: tuple[str, ...]) -> str:
    return " ".join(sentence for sentence in said if sentence)


def question(access: Access) -> str:
    """The question about what an adversary sees, in the reader's words."""
    key = _SEEN.get(access)
    return say(f"question.{key}") if key else say("question.other", what=access.words)


def sentences(report: AuditReport, found: Answer) -> tuple[str, ...]:
    """The rate with chance beside it, and what is proven."""
    if found.strength is Strength.VOID:
        reasons = [one.reason for one in found.mechanism.verdicts if one.outcome is found.mechanism.outcome and one.reason]
        return (say("answer.void", reason=reasons[0] if reasons else en.VERDICTS[found.mechanism.outcome]),)  # type: ignore[index]
    return (_rate(found), _proven(report, found))


def _rate(found: Answer) -> str:
    if found.rate is None:
        return say("answer.no_rate")
    attack, point = found.rate.attack, found.rate.point
    size = attack.roc.members
    return say(
        "answer.rate",
        attack=attack.scorer,
        fpr=target(point.target_fpr),
        tpr=rate(point.tpr, size),
        low=rate(point.lower, size, "down"),
        high=rate(point.upper, size, "up"),
        chance=rate(point.target_fpr, size),
    )


def _proven(report: AuditReport, found: Answer) -> str:
    if found.proven is None:
        return "" if headline.has_coins(report) else say("answer.split")
    if found.proven.bound.epsilon <= 0:
        return say("answer.nothing_proven", ceiling=down(found.proven.bound.ceiling))
    said = proof(report, found.proven)
    if found.rate is not None and found.rate.attack.scorer == found.proven.attack:
        return say("answer.proven", proof=said)
    return say("answer.proven_by", attack=found.proven.attack, proof=said)


def proof(report: AuditReport, place: Placed) -> str:
    """A bound for any mechanism with its confidence and the ceiling of its own game."""
    bound = place.bound
    return say("proof", epsilon=down(bound.epsilon), confidence=confidence(report.confidence), ceiling=down(bound.ceiling))


def facts(report: AuditReport, head: Headline | None, claim: Text) -> Facts:
    """Claim, policy, membership, what would be stronger, and every open note: each on a line of its own."""
    items: list[tuple[str, Text]] = [
        (say("fact.claim"), claim),
        (say("fact.policy"), policy(report)),
        (say("fact.trust"), trust(report)),
    ]
    needs = needed(report)
    items += [(say("fact.stronger"), needs)] if needs else []
    if report.notes:
        numbered = [piece for i, note in enumerate(report.notes, start=1) for piece in (Strong(f"{i}. "), f"{note} ")]
        items.append((say("fact.notes"), tuple(numbered)))
    return Facts(items=tuple(items))


def policy(report: AuditReport) -> Text:
    """Whether the gates of the release policy hold; those that do not by name."""
    if not report.policy:
        return say("policy.none")
    missed = [gate for gate in report.policy if not gate.met]
    mark = Mark(say("policy.not_met"), Tone.BAD) if missed else Mark(say("policy.met"), Tone.GOOD)
    said = [say("policy.gates", met=len(report.policy) - len(missed), all=len(report.policy))]
    said += [
        say(
            "policy.missed",
            gate=en.GATES.get(gate.gate, gate.gate),
            limit=significant(gate.limit),
            found=NOTHING if gate.found is None else significant(gate.found),
        )
        for gate in missed
    ]
    return (mark, ". ", " ".join(said))


def trust(report: AuditReport) -> Text:
    """Whether the split can be trusted."""
    found = answer.trust(report)
    said = [say("trust.coins" if found.by_coins else "trust.split")]
    if found.by_coins:
        numbers = {"alarms": count(found.alarms), "repetitions": count(found.repetitions), "allowed": count(found.allowed)}
        said.append(say("trust.control", **numbers) if found.repetitions else say("trust.no_control"))
    if found.guard is not None:
        said.append(say("trust.guard", value=found.guard.value))
    elif not found.by_coins:
        said.append(say("trust.no_guard"))
    word, tone = en.STATUS[found.status]
    return (Mark(word.capitalize(), tone), ". ", " ".join(said))


def needed(report: AuditReport) -> str:
    """What would make the answer stronger, in numbers."""
    found = answer.stronger(report)
    if found is None:
        return ""
    said = []
    if found.needed:
        said.append(say("stronger.coins", epsilon=up(found.epsilon), needed=count(found.needed), coins=count(found.coins)))
    said.append(say("stronger.records", more=count(answer.HALF * found.records), records=count(found.records)))
    if found.references is not None and found.references < answer.ENOUGH:
        key = "stronger.references" if found.references else "stronger.no_references"
        said.append(say(key, references=found.references))
    return " ".join(said)
