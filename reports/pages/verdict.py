"""The answer of the first page in words, and the facts that it is on."""

import itertools
import math
import re

from audit.core.game import Inclusion
from audit.core.game_results import AttackResult
from audit.core.lower_bounds import read_ceiling, read_epsilon
from audit.core.results import AuditReport, MechanismResult, Status
from reports import answer, headline
from reports.answer import Answer, Trust
from reports.headline import GameBound, Headline
from reports.pages import consequences
from reports.pages.blocks import Facts, Strong, Text, Tone, Verdict
from reports.strength import LEAST_PRINTED, Strength
from reports.words import named
from reports.words.language import confidence, count, down, many, near, rate, recorded, say, significant, target, up
from reports.words.phrases import join_sentences

TONES = {
    Strength.YES: Tone.MEASURED,
    Strength.AT_LEAST: Tone.MEASURED,
    Strength.LITTLE: Tone.MEASURED,
    Strength.TOO_FEW: Tone.PLAIN,
    Strength.NOT_SHOWN: Tone.PLAIN,
    Strength.VOID: Tone.OPEN,
}
CONTROL_FAILED = "the negative control found more than chance allows"
MOST_ANSWERS = 4  # in full on the first page; the others stand in a line each
MOST_LETTERS = 110  # of a description of canaries inside a sentence

# what is said of the ground of a game, by whether all games are about other secrets and whether chance decided
BASES = {
    (False, True): "trust.coins",
    (False, False): "trust.split",
    (True, True): "trust.draws",
    (True, False): "trust.no_draws",
}


def verdict(report: AuditReport) -> Verdict:
    """The strongest answer, and in a word and a sentence those of every other question and adversary."""
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
    if len(all_answers) <= MOST_ANSWERS:
        for item in further:
            text = say("answer.other", question=question(report, item), strength=word(item))
            new = [sentence for sentence in sentences(report, item) if sentence not in sentences(report, first)]
            paragraphs.append((Strong(text), say("separator.space"), join_sentences(new)))
    elif further:
        paragraphs.append((Strong(say("answer.views")), say("separator.space"), _views(further)))
    return Verdict(question=question(report, first), word=word(first), text=tuple(paragraphs), tone=TONES[first.strength])


def word(item: Answer) -> str:
    """Return the answer in a word; coarse figures leave open what more of them may say."""
    if item.strength is Strength.TOO_FEW and headline.is_coarse(item.attack):
        return say("answer.coarse_word")
    return say(f"answer.{item.strength.value}")


def _views(further: tuple[Answer, ...]) -> str:
    clauses = []
    for item in further:
        name = item.mechanism.name if item.mechanism.training else named.level(item.access)
        proven = say("answer.view_proof", epsilon=down(item.epsilon)) if item.epsilon >= LEAST_PRINTED else ""
        clauses.append(say("answer.view", name=name, strength=word(item), proof=proven))
    return say("separator.clauses").join(clauses) + say("separator.end")


def question(report: AuditReport, item: Answer) -> str:
    """Return what is asked, in the reader's words; in a federation with the training that it is asked of."""
    if item.secret:
        return named.secret_question(item.secret, item.access)
    text = named.question(item.access, answer.protected_unit(report))
    training = item.mechanism.training
    several = len({result.training for result in report.mechanisms}) > 1
    return say("question.of_training", training=training, question=text) if training and several else text


def sentences(report: AuditReport, item: Answer) -> tuple[str, ...]:
    """The rate with chance beside it, and what is proven."""
    if item.strength is Strength.VOID:
        return (say("answer.void", reason=void_reason(item.mechanism)),)
    rate_text = _guesses(item) if item.attack.guesses is not None else rate_sentence(report, item)
    key = "answer.coarse" if headline.is_coarse(item.attack) else "answer.wide"
    wide = say(key) if item.strength is Strength.AT_LEAST else ""
    has_area = item.proven is None and not item.secret and item.game.game.inclusion is not Inclusion.COINS
    return (rate_text, _area(item.attack) if has_area else "", _proof_text(report, item), wide)


def void_reason(mechanism: MechanismResult) -> str:
    """Return why the evidence of a training cannot be used: which of the audit's own checks failed."""
    reasons = [verdict.reason for verdict in mechanism.verdicts if verdict.outcome is mechanism.outcome and verdict.reason]
    if not all(control.passed for game in mechanism.games for control in game.controls):
        reasons.append(CONTROL_FAILED)
    if mechanism.preflight is not None and mechanism.preflight.doubt:
        reasons.append(mechanism.preflight.doubt)
    reasons += [check.value for check in mechanism.checks if check.status is Status.FAILED]
    return recorded(reasons[0]) if reasons else say("answer.void_short")


def _guesses(item: Answer) -> str:
    """Return how many secrets were named, beside how many follow from what everybody knows of them."""
    result = item.attack.guesses
    if result is None:
        return say("answer.no_rate")
    return say(
        "answer.guesses",
        attack=item.attack.scorer,
        right=count(result.right),
        secrets=count(result.secrets),
        kind=describe_canaries(item),
        share=rate(result.right / result.secrets, result.secrets),
        low=rate(result.lower, result.secrets, "down"),
        high=rate(result.upper, result.secrets, "up"),
        chance=near(100 * result.baseline, 1),
    )


def rate_sentence(report: AuditReport, item: Answer) -> str:
    """Return how many members the attack finds, who these members are, and how many guessing finds."""
    if item.rate is None:
        return say("answer.no_rate")
    size = item.attack.roc.members
    return say(
        "answer.rate",
        attack=item.attack.scorer,
        fpr=false_positives(item.rate.fpr, item.attack.roc.nonmembers),
        tpr=rate(item.rate.tpr, size),
        members=members(report, item),
        low=rate(item.rate.lower, size, "down"),
        high=rate(item.rate.upper, size, "up"),
        chance=rate(item.rate.fpr, size),
    )


def false_positives(fpr: float, nonmembers: int) -> str:
    """Return a false positive rate: one that was asked for without idle zeros, any other as exact as the nonmembers allow."""
    return target(fpr) if math.isclose(1000 * fpr, round(1000 * fpr)) else rate(fpr, nonmembers)


def members(report: AuditReport, item: Answer) -> str:
    """Return who the members are that an attack finds: planted by the audit, put in by coins, or given."""
    number = count(item.attack.roc.members)
    if item.game.game.inclusion is Inclusion.SPLIT:
        return say("members.given", number=number)
    if report.kind not in answer.KINDS_WITH_OWN_COINS:
        return say("members.by_coins", number=number)
    return say("members.planted", number=number, kind=describe_canaries(item))


def describe_canaries(item: Answer) -> str:
    """Return what the canaries are, as short as a sentence can hold."""
    text = re.split("[;；]", recorded(item.game.game.canary))[0] or say("game.canaries")
    return text if len(text) <= MOST_LETTERS else re.split("[,，]", text)[0]


def _proof_text(report: AuditReport, item: Answer) -> str:
    if item.secret == answer.PROPERTY:
        return say("answer.property")
    if item.proven is None:
        by_coins = item.game.game.inclusion is Inclusion.COINS
        return say("answer.no_bound" if by_coins else "answer.no_draw" if item.secret else "answer.split")
    if read_epsilon(item.proven.bound) < LEAST_PRINTED:
        return say("answer.nothing_proven", ceiling=down(read_ceiling(item.proven.bound)))
    text = proof(report, item.proven)
    ending = re.split(", |[;；，]", item.proven.bound.selected)[0]
    if item.proven.attack != item.attack.scorer:
        return say("answer.proven_together", proof=text)
    return say("answer.proven_at", ending=ending, proof=text) if ending[:1].isdigit() else say("answer.proven", proof=text)


def _area(attack: AttackResult) -> str:
    """Return the whole order of the scores, for which a split has no bound."""
    if attack.auc is None or attack.auc_lower is None or attack.auc_upper is None:
        return ""
    return say("answer.area", area=near(attack.auc, 3), low=down(attack.auc_lower, 3), high=up(attack.auc_upper, 3))


def proof(report: AuditReport, place: GameBound) -> str:
    """A bound for any mechanism with its confidence and its own ceiling game."""
    bound = place.bound
    return say(
        "proof", epsilon=down(read_epsilon(bound)), confidence=confidence(report.confidence), ceiling=down(read_ceiling(bound))
    )


def facts(report: AuditReport, head: Headline | None, claim: Text) -> Facts:
    """Claim, risk, next action, policy, membership, what would be stronger, and every open note: each on its own line."""
    lead = next(iter(answer.answers(report)), None)
    items: list[tuple[str, Text]] = [(say("fact.claim"), claim)]
    if lead is not None:
        items.append((say("fact.risk"), consequences.risk(lead)))
        items.append((say("fact.next"), consequences.next_action(report, head, lead)))
    items += [
        (say("fact.policy"), policy(report)),
        (say("fact.trust_of_secrets" if answer.trust(report).of_secrets else "fact.trust"), trust(report)),
    ]
    needs = stronger_audit(report)
    items += [(say("fact.stronger"), needs)] if needs else []
    if report.notes:
        pieces = ((Strong(f"{place}. "), f"{note}{say('separator.space')}") for place, note in enumerate(report.notes, start=1))
        items.append((say("fact.notes"), tuple(itertools.chain.from_iterable(pieces))))
    return Facts(items=tuple(items))


def policy(report: AuditReport) -> Text:
    """Return whether the gates of the release policy hold; those that do not by name."""
    if not report.policy:
        return say("policy.none")
    failures = [gate for gate in report.policy if not gate.met]
    word = Strong(say("policy.not_met" if failures else "policy.met"))
    lines = [say("policy.gates", met=len(report.policy) - len(failures), all=len(report.policy))]
    for gate in failures:
        found = say("policy.no_figure") if gate.found is None else significant(gate.found)
        lines.append(say("policy.missed", gate=named.gate(gate.gate), limit=significant(gate.limit), found=found))
    return (word, say("separator.sentences"), join_sentences(lines))


def trust(report: AuditReport) -> Text:
    """Return what decided membership, or the values of secrets, and whether that was checked."""
    basis = answer.trust(report)
    is_declared = basis.by_coins and not basis.by_this_audit and not basis.of_secrets
    lines = [say("trust.declared_coins" if is_declared else BASES[basis.of_secrets, basis.by_coins])]
    if basis.by_coins and basis.repetitions:
        alarms = many("noun.false_alarm", basis.alarms)
        lines.append(say("trust.control", alarms=alarms, repetitions=count(basis.repetitions), allowed=count(basis.allowed)))
    elif basis.by_coins:
        lines.append(say("trust.no_control"))
    if basis.guard is not None:
        lines.append(say("trust.guard", value=basis.guard.value))
    elif not basis.by_coins and not basis.of_secrets:
        lines.append(say("trust.no_guard"))
    return (Strong(say(f"trust.{_trust_word(basis)}")), say("separator.sentences"), join_sentences(lines))


def _trust_word(basis: Trust) -> str:
    """Return the word for what decided membership: *checked* only where this audit checked it."""
    if basis.status is Status.FAILED:
        return "failed"
    if basis.by_coins:
        return "drawn_here" if basis.by_this_audit else "declared"
    return "inputs_checked" if basis.guard is not None and basis.guard.status is Status.CHECKED else "not_checked"


def stronger_audit(report: AuditReport) -> str:
    """Return what would make the answer stronger, in numbers."""
    requirement = answer.stronger(report)
    if requirement is None:
        return ""
    lines = []
    if requirement.needed:
        coins = {"needed": count(requirement.needed), "coins": count(requirement.coins)}
        lines.append(say("stronger.coins", epsilon=up(requirement.epsilon), **coins))
    lines.append(say("stronger.records", more=count(answer.HALF * requirement.records), records=count(requirement.records)))
    if requirement.references is not None and requirement.references < answer.ENOUGH_RECORDS:
        key = "stronger.references" if requirement.references else "stronger.no_references"
        lines.append(say(key, references=requirement.references))
    return join_sentences(lines)
