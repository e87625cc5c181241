"""Two reports of the same subject side by side: what got worse, what is gone, what merely differs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.core.claims import Outcome
from audit.core.game_results import AttackResult, GameResult
from audit.core.results import AuditReport, MechanismResult
from audit.core.rounding import down, near, percent, up
from reports import headline

SAME_CLAIM = 1e-3  # relative difference below which two claims of one accountant count as equal
SPREADS = 2.0  # a utility figure that falls by more than so many standard deviations is named
RANK = {
    None: 0,
    Outcome.CONSISTENT: 0,
    Outcome.OUT_OF_REACH: 1,
    Outcome.INVALID: 2,
    Outcome.VIOLATED: 3,
}


class Weight(StrEnum):
    """What a change means for a release."""

    WORSE = "worse"  # a regression: the command answers with exit code 1
    GONE = "gone"  # was there and is not any more; a regression too, because silence is no evidence
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference. `subject` is mechanism, or mechanism.game.attack, or "" for the whole report."""

    weight: Weight
    subject: str
    text: str


def changes(old: AuditReport, new: AuditReport) -> tuple[Change, ...]:
    """All differences that a release decision could hang on, in the order of the old report's pages."""
    change_list: list[Change] = []
    if old.delta != new.delta:
        text = f"delta was {old.delta:g}, is {new.delta:g}: no epsilon of the two reports can be compared"
        change_list.append(Change(weight=Weight.WORSE, subject="", text=text))
    later = {mechanism.name: mechanism for mechanism in new.mechanisms}
    for mechanism in old.mechanisms:
        if mechanism.name in later:
            change_list += _of_mechanism(mechanism, later[mechanism.name])
        else:
            change_list.append(Change(weight=Weight.GONE, subject=mechanism.name, text="the training is not in the new report"))
    names = {mechanism.name for mechanism in old.mechanisms}
    change_list += [
        Change(weight=Weight.OTHER, subject=mechanism.name, text="new training")
        for mechanism in new.mechanisms
        if mechanism.name not in names
    ]
    change_list += _of_policy(old, new)
    return tuple(change_list)


def is_worse(changes: Sequence[Change]) -> bool:
    """True where anything got worse or went missing."""
    return any(change.weight is not Weight.OTHER for change in changes)


def _of_mechanism(old: MechanismResult, new: MechanismResult) -> Iterator[Change]:
    if old.outcome is not new.outcome:
        before, after = (mechanism.outcome.value if mechanism.outcome else "no claim" for mechanism in (old, new))
        vanishes = old.outcome is not None and new.outcome is None
        worse = RANK[new.outcome] > RANK[old.outcome]
        weight = Weight.GONE if vanishes else Weight.WORSE if worse else Weight.OTHER
        yield Change(weight=weight, subject=old.name, text=f"outcome was {before}, is {after}")
    yield from _of_claims(old, new)
    yield from _of_bounds(old, new)
    games = {game.name: game for game in new.games}
    for game in old.games:
        if game.name in games:
            yield from _of_game(old.name, game, games[game.name])
        else:
            yield Change(weight=Weight.GONE, subject=f"{old.name}.{game.name}", text="the game was not played")
    yield from _of_utility(old, new)


def _of_claims(old: MechanismResult, new: MechanismResult) -> Iterator[Change]:
    """A claim of one accountant on one mechanism may not move at all; on another mechanism only up is worse."""
    later = {_accountant(claim.source): claim for claim in new.claims}
    comparable = old.mechanism is not None and old.mechanism == new.mechanism
    for claim in old.claims:
        name = _accountant(claim.source)
        if name not in later:
            yield Change(weight=Weight.GONE, subject=old.name, text=f"{name} states no epsilon any more")
            continue
        new_value = later[name].epsilon
        if new_value == claim.epsilon or abs(new_value - claim.epsilon) <= SAME_CLAIM * max(claim.epsilon, new_value):
            continue
        text = f"{name} claimed {up(claim.epsilon)}, claims {up(new_value)}"
        if comparable:
            yield Change(weight=Weight.WORSE, subject=old.name, text=f"{text} for the same mechanism")
        else:
            yield Change(weight=Weight.WORSE if new_value > claim.epsilon else Weight.OTHER, subject=old.name, text=text)


def _of_bounds(old: MechanismResult, new: MechanismResult) -> Iterator[Change]:
    old_bound, new_bound = headline.free(old), headline.free(new)
    if old_bound is not None and new_bound is None:
        yield Change(weight=Weight.GONE, subject=old.name, text="no bound for any mechanism was computed")
    elif old_bound is not None and new_bound is not None and down(old_bound.bound.epsilon) != down(new_bound.bound.epsilon):
        text = (
            f"proven epsilon was {down(old_bound.bound.epsilon)}, is {down(new_bound.bound.epsilon)}; a bound varies from "
            "run to run"
        )
        yield Change(weight=Weight.OTHER, subject=old.name, text=text)


def _of_game(owner: str, old: GameResult, new: GameResult) -> Iterator[Change]:
    together = [{bound.estimator for bound in game.watched.bounds} if game.watched else set() for game in (old, new)]
    for name in sorted(together[0] - together[1]):
        yield Change(weight=Weight.GONE, subject=f"{owner}.{old.name}", text=f"no bound of {name} on all attacks together")
    attacks = {attack.scorer: attack for attack in new.attacks}
    for attack in old.attacks:
        subject = f"{owner}.{old.name}.{attack.scorer}"
        if attack.scorer not in attacks:
            yield Change(weight=Weight.GONE, subject=subject, text="the attack was not run")
            continue
        yield from _of_attack(subject, attack, attacks[attack.scorer])


def _of_attack(subject: str, old: AttackResult, new: AttackResult) -> Iterator[Change]:
    missing = {bound.estimator for bound in old.bounds} - {bound.estimator for bound in new.bounds}
    for name in sorted(missing):
        yield Change(weight=Weight.GONE, subject=subject, text=f"no bound of {name}")
    if new.auc_lower > old.auc_upper:
        text = f"AUC was {near(old.auc, 3)}, is {near(new.auc, 3)}: the intervals do not meet"
        yield Change(weight=Weight.WORSE, subject=subject, text=text)
    later = {point.target_fpr: point for point in new.tpr_at}
    for point in old.tpr_at:
        new_value = later.get(point.target_fpr)
        if point.upper is not None and new_value is not None and new_value.lower is not None and new_value.lower > point.upper:
            text = (
                f"TPR at {point.target_fpr:g} FPR was {percent(point.tpr)}, is {percent(new_value.tpr)}: the intervals do "
                "not meet"
            )
            yield Change(weight=Weight.WORSE, subject=subject, text=text)


def _of_utility(old: MechanismResult, new: MechanismResult) -> Iterator[Change]:
    later = {utility.name: utility for utility in new.utility}
    for utility in old.utility:
        new_value = later.get(utility.name)
        if new_value is None:
            yield Change(weight=Weight.GONE, subject=old.name, text=f"{utility.name} was not measured")
        elif abs(new_value.value - utility.value) > SPREADS * max(utility.spread, new_value.spread):
            text = f"{utility.name} was {near(utility.value, 3)}, is {near(new_value.value, 3)}"
            yield Change(weight=Weight.OTHER, subject=old.name, text=text)


def _of_policy(old: AuditReport, new: AuditReport) -> Iterator[Change]:
    later = {gate.gate: gate for gate in new.policy}
    for gate in old.policy:
        new_gate = later.get(gate.gate)
        if new_gate is None:
            yield Change(weight=Weight.GONE, subject="", text=f"the gate {gate.gate} is not set any more")
        elif gate.met and not new_gate.met:
            yield Change(weight=Weight.WORSE, subject="", text=f"the gate {gate.gate} was met, is not met")


def _accountant(source: str) -> str:
    """The accountant's name without its version, so that two versions can be compared."""
    return " ".join(re.sub(r"\d+(\.\d+)+", "", source).split())
