"""The answer of the first page in words, and the facts that it stands on."""

from __future__ import annotations

from audit.core.claims import Outcome
from audit.core.lower_bounds import read_ceiling, read_epsilon
from audit.core.results import AuditReport
from reports import answer, headline
from reports.answer import Answer, Strength
from reports.headline import GameBound, Headline
from reports.pages.blocks import Facts, Mark, Strong, Text, Tone, Verdict
from reports.words import named
from reports.words.language import say
from reports.words.numbers import confidence, count, down, near, rate, significant, target, up
from reports.words.phrases import join_sentences

TONES = {
    Strength.YES: Tone.MEASURED,
    Strength.LITTLE: Tone.MEASURED,
    Strength.NOT_SHOWN: Tone.PLAIN,
    Strength.VOID: Tone.OPEN,
}

BASES = {
    (False, True): "trust.coins",
    (False, False): "trust.split",
    (True, True): "trust.draws",
    (True, False): "trust.no_draws",
}
"""What is said of the ground of a game, by whether all games are about other secrets and whether chance decided."""


def verdict(report: AuditReport) -> Verdict:
    """The answer for the least access that was tried, and in a word for those who see more."""
    all_answers = answer.answers(report)
    if not all_answers:
        return Verdict(
            question=named.question(None, answer.protected_unit(report)),
            word=say("answer.no answer"),
            text=(say("answer.nothing"),),
            tone=Tone.PLAIN,
        )
    first, further = all_answers[0], all_answers[1:]
    paragraphs: list[Text] = [join_sentences(sentences(report, first))]
    for answer_item in further:
        text = say("answer.other", question=question(report, answer_item), strength=say(f"answer.{answer_item.strength.value}"))
        paragraphs.append((Strong(text), say("separator.space"), join_sentences(sentences(report, answer_item))))
    return Verdict(
        question=question(report, first),
        word=say(f"answer.{first.strength.value}"),
        text=tuple(paragraphs),
        tone=TONES[first.strength],
    )


def question(report: AuditReport, item: Answer) -> str:
    """Return what is asked, in the reader's words."""
    if item.secret:
        return named.question_of_secret(item.secret, item.access)
    return named.question(item.access, answer.protected_unit(report))


def sentences(report: AuditReport, answer: Answer) -> tuple[str, ...]:
    """The rate with chance beside it, and what is proven."""
    if answer.strength is Strength.VOID:
        reasons = [
            verdict.reason
            for verdict in answer.mechanism.verdicts
            if verdict.outcome is answer.mechanism.outcome and verdict.reason
        ]
        return (say("answer.void", reason=reasons[0] if reasons else named.verdict_title(Outcome.INVALID)),)
    return (_guesses(answer) if answer.secret else _rate(answer), _proof_text(report, answer))


def _guesses(answer: Answer) -> str:
    """Return how many secrets were named, beside how many follow from what everybody knows of them."""
    if answer.guesser is None or answer.guesser.guesses is None:
        return say("answer.no_rate")
    result = answer.guesser.guesses
    return say(
        "answer.guesses",
        attack=answer.guesser.scorer,
        right=count(result.right),
        secrets=count(result.secrets),
        share=rate(result.right / result.secrets, result.secrets),
        low=rate(result.lower, result.secrets, "down"),
        high=rate(result.upper, result.secrets, "up"),
        chance=near(100 * result.baseline, 1),
    )


def _rate(answer: Answer) -> str:
    if answer.rate is None:
        return say("answer.no_rate")
    attack, point = answer.rate.attack, answer.rate.point
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


def _proof_text(report: AuditReport, answer: Answer) -> str:
    if answer.proven is None:
        return "" if headline.has_coins(report) else say("answer.no_draw" if answer.secret else "answer.split")
    if read_epsilon(answer.proven.bound) <= 0:
        return say("answer.nothing_proven", ceiling=down(read_ceiling(answer.proven.bound)))
    text = proof(report, answer.proven)
    leader = answer.guesser if answer.rate is None else answer.rate.attack
    if leader is not None and leader.scorer == answer.proven.attack:
        return say("answer.proven", proof=text)
    return say("answer.proven_by", attack=answer.proven.attack, proof=text)


def proof(report: AuditReport, place: GameBound) -> str:
    """A bound for any mechanism with its confidence and the ceiling of its own game."""
    bound = place.bound
    return say(
        "proof", epsilon=down(read_epsilon(bound)), confidence=confidence(report.confidence), ceiling=down(read_ceiling(bound))
    )


def facts(report: AuditReport, head: Headline | None, claim: Text) -> Facts:
    """Claim, policy, membership, what would be stronger, and every open note: each on a line of its own."""
    items: list[tuple[str, Text]] = [
        (say("fact.claim"), claim),
        (say("fact.policy"), policy(report)),
        (say("fact.trust_of_secrets" if answer.trust(report).of_secrets else "fact.trust"), trust(report)),
    ]
    needs = stronger_audit(report)
    items += [(say("fact.stronger"), needs)] if needs else []
    if report.notes:
        pieces = [
            piece
            for i, note in enumerate(report.notes, start=1)
            for piece in (Strong(f"{i}. "), f"{note}{say('separator.space')}")
        ]
        items.append((say("fact.notes"), tuple(pieces)))
    return Facts(items=tuple(items))


def policy(report: AuditReport) -> Text:
    """Return whether the gates of the release policy hold; those that do not by name."""
    if not report.policy:
        return say("policy.none")
    failures = [gate for gate in report.policy if not gate.met]
    mark = Mark(say("policy.not_met"), Tone.BAD) if failures else Mark(say("policy.met"), Tone.GOOD)
    lines = [say("policy.gates", met=len(report.policy) - len(failures), all=len(report.policy))]
    lines += [
        say(
            "policy.missed",
            gate=named.gate(gate.gate),
            limit=significant(gate.limit),
            found=say("policy.no_figure") if gate.found is None else significant(gate.found),
        )
        for gate in failures
    ]
    return (mark, say("separator.sentences"), join_sentences(lines))


def trust(report: AuditReport) -> Text:
    """Return whether what decided membership, or the values of secrets, can be trusted."""
    basis = answer.trust(report)
    lines = [say(BASES[basis.of_secrets, basis.by_coins])]
    if basis.by_coins:
        numbers = {"alarms": count(basis.alarms), "repetitions": count(basis.repetitions), "allowed": count(basis.allowed)}
        lines.append(say("trust.control", **numbers) if basis.repetitions else say("trust.no_control"))
    if basis.guard is not None:
        lines.append(say("trust.guard", value=basis.guard.value))
    elif not basis.by_coins and not basis.of_secrets:
        lines.append(say("trust.no_guard"))
    mark = named.status_mark(basis.status)
    return (Mark(mark.text.capitalize(), mark.tone), say("separator.sentences"), join_sentences(lines))


def stronger_audit(report: AuditReport) -> str:
    """Return what would make the answer stronger, in numbers."""
    requirement = answer.stronger(report)
    if requirement is None:
        return ""
    lines = []
    if requirement.needed:
        lines.append(
            say(
                "stronger.coins",
                epsilon=up(requirement.epsilon),
                needed=count(requirement.needed),
                coins=count(requirement.coins),
            )
        )
    lines.append(say("stronger.records", more=count(answer.HALF * requirement.records), records=count(requirement.records)))
    if requirement.references is not None and requirement.references < answer.ENOUGH_RECORDS:
        key = "stronger.references" if requirement.references else "stronger.no_references"
        lines.append(say(key, references=requirement.references))
    return join_sentences(lines)
