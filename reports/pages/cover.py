"""The first page: answer, verdicts, three numbers, one sentence to quote, the evidence at a glance, who answers for it."""

import math
from collections import Counter
from dataclasses import replace

from audit.core.claims import Outcome
from audit.core.lower_bounds import ReportedBound, read_ceiling, read_epsilon
from audit.core.provenance import Engagement
from audit.core.results import AuditReport, MechanismResult, Status
from reports import answer, headline, parties
from reports.figures import _parties, _plots
from reports.formats import figures
from reports.headline import GameBound, Headline
from reports.pages import verdict, without_claim
from reports.pages.blocks import Block, Column, Mark, Mono, Number, Numbers, Paragraph, Quote, Strong, Table, Text, Tone, layout
from reports.strength import Strength
from reports.words import named
from reports.words.language import at_delta, at_most, confidence, count, down, epsilon, percent, say, up
from reports.words.phrases import figure_block, join_sentences, join_words, proof

MOST_TRAININGS = 4  # seen by several parties, that a drawing on the first page has room for


def cover(report: AuditReport) -> tuple[Block, ...]:
    """The blocks of the first page: answer, numbers, the sentence to quote and its figure together, then the facts."""
    head = headline.headline(report)
    drawing = figures.planned(report).get(picture(report))
    internal = (Mark(say("internal.mark"), Tone.BAD), say("internal.reason"), Mono("audit report --edition external"))
    return (
        *((Paragraph(text=internal),) if names_records(report) else ()),
        verdict.verdict(report),
        Numbers(items=cards(report)),
        Quote(text=quote(report)),
        *(() if drawing is None else (figure_block(drawing),)),
        verdict.facts(report, head, claim(report, head)),
    )


def cards(report: AuditReport) -> tuple[Number, ...]:
    """The numbers of the training that the answer leads with: against its claim, or without one what was found."""
    head, lead = headline.headline(report), next(iter(answer.answers(report)), None)
    is_other = head is None or (lead is not None and lead.mechanism is not head.mechanism)
    items = without_claim.numbers(report, lead) if head is None or is_other else numbers(report, head)
    if lead is None or verdict.TONES[lead.strength] is Tone.MEASURED:
        return items
    # red is for what was shown
    return tuple(replace(item, tone=Tone.CHANCE) if item.tone is Tone.MEASURED else item for item in items)


def quote(report: AuditReport) -> str:
    """The sentence that may be quoted alone: of the claim, after the leading answer if that is of another attack."""
    head, lead = headline.headline(report), next(iter(answer.answers(report)), None)
    if head is None:
        return without_claim.sentence(report, lead)
    text = quotable(report, head)
    if lead is None or lead.strength is Strength.VOID:
        return text
    place = head.proven
    is_same = lead.mechanism is head.mechanism and place is not None and place.attack in (lead.attack.scorer, headline.TOGETHER)
    return text if is_same else f"{without_claim.sentence(report, lead)}{say('separator.space')}{text}"


def names_records(report: AuditReport) -> bool:
    """True if a table holds a fact about a single record, under whatever name."""
    return any(game.records or (game.evaluation is not None and game.evaluation.records) for game in report.games)


def picture(report: AuditReport) -> str:
    """Return the drawing of the first page: all parties, else claim and evidence, else the ROC of the leading answer's game."""
    trainings = {(party.training, party.unit) for party in parties.of_report(report)}
    if 0 < len(trainings) <= MOST_TRAININGS:
        return _parties.NAME
    if any(game.bounds for game in report.games):
        return "overview"
    lead = next(iter(answer.answers(report)), None)
    if lead is None or lead.game.game.choices > 1:
        return ""
    return _plots.file_name("roc", lead.mechanism.name, lead.game.name)


def claim(report: AuditReport, head: Headline | None) -> Text:
    """Return how the claim is; marked as open if a note is."""
    if head is None:
        return (Strong(f"{say('verdict.none')}{say('separator.sentences')}"), without_claim.reason(report))
    outcome = head.verdict.outcome
    owner = join_sentences(_whose_claim(report, head))
    return (Strong(named.verdict_title(outcome)), f"{say('separator.sentences')}{join_sentences([owner, _in_words(head)])}")


def _whose_claim(report: AuditReport, head: Headline) -> list[str]:
    """Return for which training the claim is made, if the answer above leads with another one."""
    lead = next(iter(answer.answers(report)), None)
    if lead is None or lead.mechanism is head.mechanism:
        return []
    texts = [say("claim.of_another_view", name=head.mechanism.name, epsilon=up(head.verdict.claim.epsilon))]
    return texts if lead.mechanism.claims else [*texts, say("claim.none_for_the_lead", name=lead.mechanism.name)]


def _in_words(head: Headline) -> str:
    match head.verdict.outcome:
        case Outcome.INVALID:
            sentence = say("cover.the_evidence_cannot_be_used", reason=head.verdict.reason)
        case Outcome.OUT_OF_REACH:
            sentence = (
                say("cover.no_epsilon_follows_from_a_split")
                if answer.is_split(head.mechanism)
                else say("cover.even_perfect_scores_would_have", epsilon=epsilon(down(head.ceiling)))
            )
        case Outcome.VIOLATED:
            sentence = _refutation(head.verdict.bound)
        case Outcome.CONSISTENT:
            sentence = f"{say('cover.the_attacks_listed_here_prove')}{say('separator.space')}{power(head)}"
    return f"{sentence}{_assumptions(head.mechanism)}"


def power(head: Headline) -> str:
    """Return which true epsilon this audit would have caught against the claim, however loud its ceiling is."""
    claim = head.verdict.claim
    detectable = [
        figure
        for game in head.mechanism.games
        for figure in game.detectable
        if figure.claim == claim.epsilon and figure.family in (None, claim.family)
    ]
    best = min(detectable, key=lambda figure: figure.epsilon, default=None)
    if best is None:
        attacks = [attack for game in head.mechanism.games for attack in game.attacks]
        return say("power.coarse" if any(map(headline.is_coarse, attacks)) else "power.not_simulated")
    chance = percent(best.power, 0)
    if math.isinf(best.epsilon):
        return say("power.none", chance=chance)
    inside = say("power.inside", family=named.family(best.family)) if best.family else ""
    return say("power.from", chance=chance, epsilon=up(best.epsilon), inside=inside)


def _refutation(bound: ReportedBound | None) -> str:
    """Return what a refuted claim means: for a bound inside a family the curve that was claimed, not an epsilon of the run."""
    if bound is None or bound.family is None:
        return say("cover.the_attacks_prove_more_than")
    return say("cover.the_scores_refute_the_claimed", family=named.family(bound.family))


def _assumptions(mechanism: MechanismResult) -> str:
    """Return how many of the assumptions are on a test, so that a good verdict cannot hide those that do not."""
    stand = Counter(check.status for check in mechanism.checks)
    if set(stand) <= {Status.CHECKED}:
        return ""
    words = {
        Status.CHECKED: say("cover.checked_by_this_audit"),
        Status.DECLARED: say("cover.declared_by_the_owner"),
        Status.GAP: say("cover.open"),
        Status.FAILED: say("status.failed"),
    }
    counts = [say("cover.assumption_count", count=stand[status], word=word) for status, word in words.items() if stand[status]]
    return say("cover.what_the_claim_rests_on", join_words=join_words(counts))


def quotable(report: AuditReport, head: Headline) -> str:
    """One sentence that is true if quoted alone: training, claim with its δ, attack, proof, and that game's ceiling."""
    claim = head.verdict.claim
    sentence = say(
        "cover.for_the_training_is_claimed",
        name=head.mechanism.name,
        at_most=at_most(claim.epsilon),
        at_delta=at_delta(claim.delta),
        unit=claim.unit,
        source=claim.source,
    )
    if head.verdict.outcome is Outcome.INVALID:
        return say("cover.this_audit_is_void", sentence=sentence, reason=head.verdict.reason)
    if head.proven is None:
        return say("cover.this_audit_computed_no_bound", sentence=sentence)
    together = head.proven.attack == headline.TOGETHER
    key = "cover.all_attacks_prove" if together else "cover.the_attack_proves"
    evidence = say(key, attack=head.proven.attack, proof=proof(report, head.proven))
    free = headline.free(head.mechanism)
    if head.proven.bound.family and free is not None:
        evidence += say("cover.any_mechanism_beside", epsilon=down(read_epsilon(free.bound)))
    key = "cover.could_have_proven_inside" if head.proven.bound.family else "cover.could_have_proven_up_to"
    reach = say(key, epsilon=epsilon(down(read_ceiling(head.proven.bound))))
    match head.verdict.outcome:
        case Outcome.VIOLATED:
            return say("cover.so_the_claim_is_contradicted", sentence=sentence, evidence=evidence)
        case Outcome.OUT_OF_REACH:
            return say("cover.and_so_this_audit_could", sentence=sentence, evidence=evidence, reach=reach)
        case _:
            return say("cover.and_the_claim_was_not", sentence=sentence, evidence=evidence, reach=reach)


def numbers(report: AuditReport, head: Headline) -> tuple[Number, ...]:
    """Claimed, proven, ceiling."""
    claim = head.verdict.claim
    at = at_delta(claim.delta)
    void = head.verdict.outcome is Outcome.INVALID
    value = "∞" if claim.epsilon == math.inf else up(claim.epsilon)
    detail = say("cover.per_source", at=at, unit=claim.unit, source=claim.source)
    claimed = Number(say("cover.claimed_at_most"), value, detail, Tone.CLAIM)
    return claimed, _proof_number(report, head.mechanism, head.proven, at, void), _ceiling_number(head, at)


def _ceiling_number(head: Headline, at: str) -> Number:
    if head.proven is None:
        return Number(say("cover.ceiling"), say("word.none"), say("cover.no_game_could"), Tone.CHANCE)
    detail = say("cover.the_most_that_perfect_scores", at=at, other_ceiling=_other_ceiling(head))
    return Number(say("cover.ceiling_of_that_game"), down(read_ceiling(head.proven.bound)), detail, Tone.CHANCE)


def _proof_number(report: AuditReport, mechanism: MechanismResult, source: GameBound | None, at: str, void: bool) -> Number:
    if source is None:
        key = "cover.no_bound_could_be_computed" if headline.has_coins(report) else "unclaimed.a_split_of_the_data"
        return Number(say("unclaimed.proven"), say("word.none"), say(key), Tone.CHANCE)
    if void:
        return Number(say("cover.not_proven_the_audit_is"), say("word.none"), say("answer.void_short"), Tone.CHANCE)
    bound = source.bound
    label = say("cover.inside_a_family_at_least") if bound.family else say("cover.proven_at_least")
    detail = say(
        "cover.confidence_attack", at=at, confidence=confidence(report.confidence), scope=_scope(bound), attack=source.attack
    )
    counterpart = _counterpart(mechanism, source)
    if counterpart is not None:
        scope = _scope(counterpart.bound)
        detail += say("cover.and_scope", scope=scope[0].upper() + scope[1:], epsilon=down(read_epsilon(counterpart.bound)))
    return Number(label, down(read_epsilon(bound)), detail, Tone.MEASURED)


def _other_ceiling(head: Headline) -> str:
    """The ceiling of the other bound that the second number names."""
    counterpart = _counterpart(head.mechanism, head.proven)
    if counterpart is None:
        return ""
    return say("cover.and_ceiling", ceiling=down(read_ceiling(counterpart.bound)), scope=_scope(counterpart.bound))


def _counterpart(mechanism: MechanismResult, source: GameBound | None) -> GameBound | None:
    """The bound beside the proven one: for any mechanism if that is inside a family, else a larger one inside a family."""
    if source is None:
        return None
    if source.bound.family:
        return headline.free(mechanism)
    inside = headline.in_family(mechanism)
    return inside if inside is not None and read_epsilon(inside.bound) > read_epsilon(source.bound) else None


def _scope(bound: ReportedBound) -> str:
    return say("cover.inside", family=named.family(bound.family)) if bound.family else say("cover.for_any_mechanism")


def unprotected_blocks(report: AuditReport, head: Headline) -> tuple[Block, ...]:
    """Return what trainings without a claim give away, beside the one the cover speaks of."""
    blocks: list[Block] = []
    for mechanism in (mechanism for mechanism in report.mechanisms if not mechanism.claims):
        best = headline.free(mechanism) or headline.in_family(mechanism)
        if best is None or mechanism.is_void:
            continue
        rate, other_rate = _rate(mechanism, best.game.name), _rate(head.mechanism, best.game.name)
        comparison = ""
        if rate is not None and other_rate is not None:
            names = {"name": mechanism.name, "name_2": head.mechanism.name}
            comparison = say("cover.at_1_false_positives_the", sides=rate, sides_2=other_rate, **names)
        evidence = {"proof": proof(report, best), "attack": best.attack, "comparison": comparison}
        text = say("cover.the_same_training_as_for", name=mechanism.name, name_2=best.game.name, **evidence)
        if read_epsilon(best.bound) > 0:
            blocks.append(Paragraph(text=(Strong(say("cover.without_protection")), text)))
    return tuple(blocks)


def _rate(mechanism: MechanismResult, name: str) -> str | None:
    rates = [pair for game in mechanism.games if game.name == name and (pair := headline.rate_at(game, 0.01)) is not None]
    return percent(max(pair[1].tpr or 0.0 for pair in rates)) if rates else None


def identity(report: AuditReport) -> Table:
    """Return what was audited, on which data, when and by which version."""
    words = {
        "run": say("cover.trained_and_audited_here"),
        "model": say("cover.a_trained_model_as_given"),
        "scores": say("cover.attack_scores_as_given"),
        "table": say("cover.a_synthetic_table"),
    }
    rows: list[tuple[Text, ...]] = [(words.get(report.kind, report.kind), report.model)]
    if report.data is not None:
        data = report.data
        parts = {"cover.train": data.train, "cover.pool": data.pool, "cover.test": data.test}
        sizes = say("separator.words").join(f"{count(size)} {say(key)}" for key, size in parts.items() if size)
        rows.append((say("cover.data"), say("cover.data_of", name=data.name, source=data.source, sizes=sizes)))
    start = report.created.replace("T", " ").replace("Z", " UTC")
    start_text = say("cover.started_audit", start=start, version=report.provenance.version)
    rows += [(say("cover.report"), (Mono(report.id), start_text)), *_engagement(report)]
    columns = (*layout("cover.subject:0.26"), Column(title="", share=0.74))
    return Table(caption="", columns=columns, rows=tuple(rows))


def _engagement(report: AuditReport) -> list[tuple[Text, ...]]:
    """Return what the owner declares of the audit; the release context is named as missing if no one states it."""
    engagement = report.engagement or Engagement()
    statements = {
        say("cover.system"): engagement.system,
        say("cover.owner"): engagement.owner,
        say("cover.purpose"): engagement.purpose,
        say("cover.release_context"): engagement.release_context or say("cover.not_declared"),
        say("cover.auditor"): engagement.auditor,
        say("cover.reviewer"): engagement.reviewer,
        say("cover.valid_until"): engagement.valid_until,
        say("cover.next_audit"): engagement.next_audit,
    }
    return [(name, value) for name, value in statements.items() if value]
