"""What the cover says of a training for which nothing is claimed: how much the attack found, and why no epsilon follows."""

from dataclasses import replace

from audit.core.game_results import AttackResult
from audit.core.lower_bounds import FamilyBound, LowerBound, VoidBound, read_ceiling, read_epsilon
from audit.core.results import AuditReport
from reports import headline
from reports.answer import Answer
from reports.pages import verdict
from reports.pages.blocks import Number, Tone
from reports.strength import Strength
from reports.words import named
from reports.words.language import area, at_delta, confidence, down, rate, say, up
from reports.words.phrases import join_sentences


def reason(report: AuditReport) -> str:
    """Return why the cover has no verdict."""
    return say("unclaimed.nobody_stated_an_so_nothing" if headline.has_coins(report) else "unclaimed.the_figures_say_how_well")


def sentence(report: AuditReport, lead: Answer | None) -> str:
    """One sentence on the leading answer that stays true when it is quoted alone."""
    if lead is None:
        return say("unclaimed.nothing_was_measured")
    if lead.strength is Strength.VOID:
        return say("unclaimed.void", name=lead.mechanism.name, reason=verdict.void_reason(lead.mechanism))
    text = join_sentences(verdict.sentences(report, lead))
    return say("unclaimed.of_training", name=lead.mechanism.name, sentences=text)


def numbers(report: AuditReport, lead: Answer | None) -> tuple[Number, ...]:
    """Members found or secrets named, AUC, proven epsilon: all of the attack that the answer names; none of a void audit."""
    cards = (_rate_card(lead), _area_card(lead), _bound_card(report, lead))
    if lead is None or lead.strength is not Strength.VOID:
        return cards
    return tuple(replace(card, value=say("word.none"), detail=say("answer.void_short"), tone=Tone.CHANCE) for card in cards)


def _rate_card(lead: Answer | None) -> Number:
    if lead is not None and lead.attack.guesses is not None:
        result = lead.attack.guesses
        figures = (result.right / result.secrets, result.lower, result.upper, result.baseline)
        return _share_card(say("unclaimed.secrets_named"), lead.attack, figures, result.secrets)
    if lead is None or lead.rate is None:
        return Number(
            say("unclaimed.members_found"), say("word.none"), say("unclaimed.no_rate_is_measured_well"), Tone.MEASURED
        )
    target = verdict.false_positives(lead.rate.fpr, lead.attack.roc.nonmembers)
    figures = (lead.rate.tpr, lead.rate.lower, lead.rate.upper, lead.rate.fpr)
    return _share_card(say("unclaimed.members_found_at_fpr", target=target), lead.attack, figures, lead.attack.roc.members)


def _share_card(label: str, attack: AttackResult, figures: tuple[float, float, float, float], size: int) -> Number:
    share, lower, upper, chance = figures
    limits = {"low": rate(lower, size, "down"), "high": rate(upper, size, "up"), "chance": rate(chance, size)}
    detail = say("unclaimed.interval_to_attack", attack=attack.scorer, **limits)
    return Number(label, rate(share, size), detail, Tone.MEASURED)


def _area_card(lead: Answer | None) -> Number:
    if lead is None:
        return Number(say("unclaimed.auc"), say("word.none"), say("unclaimed.no_attack_was_run"), Tone.MEASURED)
    attack, detail = lead.attack, lead.attack.scorer
    if attack.auc_lower is not None and attack.auc_upper is not None:
        ends = {"down": down(attack.auc_lower, 3), "up": up(attack.auc_upper, 3)}
        detail = say("unclaimed.interval_to_0_5_is", **ends, scorer=attack.scorer)
    return Number(say("unclaimed.auc"), area(attack), detail, Tone.MEASURED)


def _bound_card(report: AuditReport, lead: Answer | None) -> Number:
    place = None if lead is None else lead.proven or headline.in_family(lead.mechanism)
    if place is None:
        split = not headline.has_coins(report)
        detail = say("unclaimed.a_split_of_the_data") if split else say("unclaimed.no_bound_was_computed")
        return Number(say("unclaimed.proven"), say("word.none"), detail, Tone.CHANCE)
    at = say("unclaimed.confidence", at_delta=at_delta(report.delta), confidence=confidence(report.confidence))
    detail = say("unclaimed.ceiling_attack", at=at, down=down(read_ceiling(place.bound)), attack=place.attack)
    value = down(read_epsilon(place.bound))
    match place.bound:
        case VoidBound():
            label, value = say("cover.not_proven_the_audit_is"), say("word.none")
            detail, tone = say("answer.void_short"), Tone.CHANCE
        case FamilyBound():
            detail = say("unclaimed.inside", family=named.family(place.bound.family), detail=detail)
            label, tone = say("cover.inside_a_family_at_least"), Tone.MEASURED
        case LowerBound():
            label, tone = say("cover.proven_at_least"), Tone.MEASURED
    return Number(label, value, detail, tone)
