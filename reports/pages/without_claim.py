"""What the cover says where nobody claimed anything: how much the attacks found, and why no epsilon follows."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.results import AuditReport, MechanismResult
from audit.core.rounding import at_delta, confidence, down, near, rate, target, up
from reports import headline
from reports.pages.blocks import Number, Tone
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
    """Why the cover has no verdict."""
    if headline.has_coins(report):
        return "Nobody stated an ε, so nothing could be contradicted. The figures say how much the attacks found."
    return (
        "The figures say how well attacks tell the given members from the given nonmembers. No ε follows from them: "
        "membership was decided by a split of the data and not by recorded coins, so a difference between the two parts need "
        "not be leakage."
    )


def sentence(report: AuditReport) -> str:
    """One sentence for each mechanism that stays true when it is quoted alone."""
    sentences = []
    for mechanism in report.mechanisms:
        point = finest(mechanism)
        if point:
            low, high = rate(point.lower, point.members, "down"), rate(point.upper, point.members, "up")
            sentences.append(
                f"At {target(point.fpr)} false positives the attack “{point.attack}” finds {rate(point.tpr, point.members)} of "
                f"the members of “{mechanism.name}” (interval {low} to {high})."
            )
        best = headline.free(mechanism) or headline.in_family(mechanism)
        if best is not None:
            sentences.append(f"For “{mechanism.name}” {proof(report, best)} is proven {at_delta(report.delta)}.")
    return " ".join(sentences) or "Nothing was measured."


def numbers(report: AuditReport) -> tuple[Number, ...]:
    """Members found, AUC, proven epsilon of the first mechanism."""
    mechanism = report.mechanisms[0] if report.mechanisms else None
    return (_rate_sentence(mechanism), _area(mechanism), _epsilon(report, mechanism))


def _rate_sentence(mechanism: MechanismResult | None) -> Number:
    point = finest(mechanism) if mechanism else None
    if point is None:
        return Number(label="Members found", value="none", detail="No rate is measured well enough", tone=Tone.MEASURED)
    low, high = rate(point.lower, point.members, "down"), rate(point.upper, point.members, "up")
    return Number(
        label=f"Members found at {target(point.fpr)} FPR",
        value=rate(point.tpr, point.members),
        detail=f"Interval {low} to {high}. Attack: {point.attack}",
        tone=Tone.MEASURED,
    )


def _area(mechanism: MechanismResult | None) -> Number:
    attacks = [attack for game in mechanism.games for attack in game.attacks] if mechanism else []
    best = max(attacks, key=lambda attack: attack.auc, default=None)
    if best is None:
        return Number(label="Largest AUC", value="none", detail="No attack was run", tone=Tone.MEASURED)
    return Number(
        label="Largest AUC",
        value=near(best.auc, 3),
        detail=f"Interval {down(best.auc_lower, 3)} to {up(best.auc_upper, 3)}; 0.5 is chance. Attack: {best.scorer}",
        tone=Tone.MEASURED,
    )


def _epsilon(report: AuditReport, mechanism: MechanismResult | None) -> Number:
    best = (headline.free(mechanism) or headline.in_family(mechanism)) if mechanism else None
    if best is None:
        split = not headline.has_coins(report)
        detail = "A split of the data proves no ε" if split else "No bound was computed"
        return Number(label="Proven ε", value="none", detail=detail, tone=Tone.CHANCE)
    at = f"{at_delta(report.delta)}, {confidence(report.confidence)} confidence"
    return Number(
        label="Proven ε, at least",
        value=down(best.bound.epsilon),
        detail=f"{at}. Ceiling {down(best.bound.ceiling)}. Attack: {best.attack}",
        tone=Tone.MEASURED,
    )
