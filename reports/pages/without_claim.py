"""What the cover says where nobody claimed anything: how much the attacks found, and why no epsilon follows."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.lower_bounds import read_ceiling, read_epsilon
from audit.core.results import AuditReport, MechanismResult
from reports import headline
from reports.pages.blocks import Number, Tone
from reports.words.language import say
from reports.words.numbers import at_delta, confidence, down, near, rate, target, up
from reports.words.phrases import proof

EXPECTED_HITS = 10  # a headline rate needs so many expected false positives


@dataclass(frozen=True, slots=True, kw_only=True)
class Finest:
    """The attack that finds most at the smallest false positive rate that is measured well."""

    attack: str
    fpr: float
    tpr: float
    lower: float
    upper: float
    members: int


def finest(mechanism: MechanismResult) -> Finest | None:
    """At the smallest target with at least ten expected false positives, the attack with the largest TPR; else None."""
    targets = sorted({point.target_fpr for game in mechanism.games for attack in game.attacks for point in attack.tpr_at})
    for fpr in targets:
        rates = [pair for game in mechanism.games if (pair := headline.rate_at(game, fpr)) is not None]
        solid = [pair for pair in rates if pair[0].roc.nonmembers * fpr >= EXPECTED_HITS]
        if solid:
            attack, point = max(solid, key=lambda pair: pair[1].tpr or 0.0)
            return Finest(
                attack=attack.scorer,
                fpr=fpr,
                tpr=point.tpr or 0.0,
                lower=point.lower or 0.0,
                upper=1.0 if point.upper is None else point.upper,
                members=attack.roc.members,
            )
    return None


def reason(report: AuditReport) -> str:
    """Return why the cover has no verdict."""
    if headline.has_coins(report):
        return say("unclaimed.nobody_stated_an_so_nothing")
    return say("unclaimed.the_figures_say_how_well")


def sentence(report: AuditReport) -> str:
    """One sentence for each mechanism that stays true when it is quoted alone."""
    sentences = []
    for mechanism in report.mechanisms:
        point = finest(mechanism)
        if point:
            low, high = rate(point.lower, point.members, "down"), rate(point.upper, point.members, "up")
            sentences.append(
                say(
                    "unclaimed.at_false_positives_the_attack",
                    target=target(point.fpr),
                    attack=point.attack,
                    rate=rate(point.tpr, point.members),
                    name=mechanism.name,
                    low=low,
                    high=high,
                    chance=rate(point.fpr, point.members),
                )
            )
        best = headline.free(mechanism) or headline.in_family(mechanism)
        if best is not None and mechanism.is_void:
            sentences.append(say("unclaimed.void", name=mechanism.name))
        elif best is not None:
            sentences.append(
                say("unclaimed.for_is_proven", name=mechanism.name, proof=proof(report, best), at_delta=at_delta(report.delta))
            )
    return " ".join(sentences) or say("unclaimed.nothing_was_measured")


def numbers(report: AuditReport) -> tuple[Number, ...]:
    """Members found, AUC, proven epsilon of the first mechanism."""
    mechanism = report.mechanisms[0] if report.mechanisms else None
    return (_rate_sentence(mechanism), _area(mechanism), _epsilon(report, mechanism))


def _rate_sentence(mechanism: MechanismResult | None) -> Number:
    point = finest(mechanism) if mechanism else None
    if point is None:
        return Number(
            label=say("unclaimed.members_found"),
            value=say("word.none"),
            detail=say("unclaimed.no_rate_is_measured_well"),
            tone=Tone.MEASURED,
        )
    low, high = rate(point.lower, point.members, "down"), rate(point.upper, point.members, "up")
    return Number(
        label=say("unclaimed.members_found_at_fpr", target=target(point.fpr)),
        value=rate(point.tpr, point.members),
        detail=say(
            "unclaimed.interval_to_attack",
            low=low,
            high=high,
            attack=point.attack,
            chance=rate(point.fpr, point.members),
        ),
        tone=Tone.MEASURED,
    )


def _area(mechanism: MechanismResult | None) -> Number:
    attacks = [attack for game in mechanism.games for attack in game.attacks] if mechanism else []
    best = max(attacks, key=lambda attack: attack.auc, default=None)
    if best is None:
        return Number(
            label=say("unclaimed.largest_auc"),
            value=say("word.none"),
            detail=say("unclaimed.no_attack_was_run"),
            tone=Tone.MEASURED,
        )
    return Number(
        label=say("unclaimed.largest_auc"),
        value=near(best.auc, 3),
        detail=say("unclaimed.interval_to_0_5_is", down=down(best.auc_lower, 3), up=up(best.auc_upper, 3), scorer=best.scorer),
        tone=Tone.MEASURED,
    )


def _epsilon(report: AuditReport, mechanism: MechanismResult | None) -> Number:
    best = (headline.free(mechanism) or headline.in_family(mechanism)) if mechanism else None
    if best is None:
        split = not headline.has_coins(report)
        detail = say("unclaimed.a_split_of_the_data") if split else say("unclaimed.no_bound_was_computed")
        return Number(label=say("unclaimed.proven"), value=say("word.none"), detail=detail, tone=Tone.CHANCE)
    if mechanism is not None and mechanism.is_void:
        detail = say("unclaimed.void", name=mechanism.name)
        return Number(
            label=say("cover.not_proven_the_audit_is"), value=down(read_epsilon(best.bound)), detail=detail, tone=Tone.CHANCE
        )
    at = say("unclaimed.confidence", at_delta=at_delta(report.delta), confidence=confidence(report.confidence))
    return Number(
        label=say("cover.proven_at_least"),
        value=down(read_epsilon(best.bound)),
        detail=say("unclaimed.ceiling_attack", at=at, down=down(read_ceiling(best.bound)), attack=best.attack),
        tone=Tone.MEASURED,
    )
