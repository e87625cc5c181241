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
    found: list[Change] = []
    if old.delta != new.delta:
        text = f"delta was {old.delta:g}, is {new.delta:g}: no epsilon of the two reports can be compared"
        found.append(Change(weight=Weight.WORSE, subject="", text=text))
    later = {one.name: one for one in new.mechanisms}
    for one in old.mechanisms:
        if one.name in later:
            found += _of_mechanism(one, later[one.name])
        else:
            found.append(Change(weight=Weight.GONE, subject=one.name, text="the training is not in the new report"))
    names = {one.name for one in old.mechanisms}
    found += [
        Change(weight=Weight.OTHER, subject=one.name, text="new training") for one in new.mechanisms if one.name not in names
    ]
    found += _of_policy(old, new)
    return tuple(found)


def regressed(found: Sequence[Change]) -> bool:
    """True where anything got worse or went missing."""
    return any(one.weight is not Weight.OTHER for one in found)


def _of_mechanism(old: MechanismResult, new: MechanismResult) -> Iterator[Change]:
    if old.outcome is not new.outcome:
        was, now = (one.outcome.value if one.outcome else "no claim" for one in (old, new))
        gone = old.outcome is not None and new.outcome is None
        worse = RANK[new.outcome] > RANK[old.outcome]
        weight = Weight.GONE if gone else Weight.WORSE if worse else Weight.OTHER
        yield Change(weight=weight, subject=old.name, text=f"outcome was {was}, is {now}")
    yield from _of_claims(old, new)
    yield from _of_bounds(old, new)
    games = {one.name: one for one in new.games}
    for game in old.games:
        if game.name in games:
            yield from _of_game(old.name, game, games[game.name])
        else:
            yield Change(weight=Weight.GONE, subject=f"{old.name}.{game.name}", text="the game was not played")
    yield from _of_utility(old, new)


def _of_claims(old: MechanismResult, new: MechanismResult) -> Iterator[Change]:
    """A claim of one accountant on one mechanism may not move at all; on another mechanism only up is worse."""
    later = {_accountant(one.source): one for one in new.claims}
    same = old.mechanism is not None and old.mechanism == new.mechanism
    for claim in old.claims:
        name = _accountant(claim.source)
        if name not in later:
            yield Change(weight=Weight.GONE, subject=old.name, text=f"{name} states no epsilon any more")
            continue
        now = later[name].epsilon
        if now == claim.epsilon or abs(now - claim.epsilon) <= SAME_CLAIM * max(claim.epsilon, now):
            continue
        text = f"{name} claimed {up(claim.epsilon)}, claims {up(now)}"
        if same:
            yield Change(weight=Weight.WORSE, subject=old.name, text=f"{text} for the same mechanism")
        else:
            yield Change(weight=Weight.WORSE if now > claim.epsilon else Weight.OTHER, subject=old.name, text=text)


def _of_bounds(old: MechanismResult, new: MechanismResult) -> Iterator[Change]:
    was, now = headline.free(old), headline.free(new)
    if was is not None and now is None:
        yield Change(weight=Weight.GONE, subject=old.name, text="no bound for any mechanism was computed")
    elif was is not None and now is not None and down(was.bound.epsilon) != down(now.bound.epsilon):
        text = f"proven epsilon was {down(was.bound.epsilon)}, is {down(now.bound.epsilon)}; a bound varies from run to run"
        yield Change(weight=Weight.OTHER, subject=old.name, text=text)


def _of_game(owner: str, old: GameResult, new: GameResult) -> Iterator[Change]:
    together = [{one.estimator for one in game.watched.bounds} if game.watched else set() for game in (old, new)]
    for name in sorted(together[0] - together[1]):
        yield Change(weight=Weight.GONE, subject=f"{owner}.{old.name}", text=f"no bound of {name} on all attacks together")
    attacks = {one.scorer: one for one in new.attacks}
    for attack in old.attacks:
        subject = f"{owner}.{old.name}.{attack.scorer}"
        if attack.scorer not in attacks:
            yield Change(weight=Weight.GONE, subject=subject, text="the attack was not run")
            continue
        yield from _of_attack(subject, attack, attacks[attack.scorer])


def _of_attack(subject: str, old: AttackResult, new: AttackResult) -> Iterator[Change]:
    missing = {one.estimator for one in old.bounds} - {one.estimator for one in new.bounds}
    for name in sorted(missing):
        yield Change(weight=Weight.GONE, subject=subject, text=f"no bound of {name}")
    if new.auc_lower > old.auc_upper:
        text = f"AUC was {near(old.auc, 3)}, is {near(new.auc, 3)}: the intervals do not meet"
        yield Change(weight=Weight.WORSE, subject=subject, text=text)
    later = {one.target_fpr: one for one in new.tpr_at}
    for one in old.tpr_at:
        now = later.get(one.target_fpr)
        if one.upper is not None and now is not None and now.lower is not None and now.lower > one.upper:
            text = f"TPR at {one.target_fpr:g} FPR was {percent(one.tpr)}, is {percent(now.tpr)}: the intervals do not meet"
            yield Change(weight=Weight.WORSE, subject=subject, text=text)


def _of_utility(old: MechanismResult, new: MechanismResult) -> Iterator[Change]:
    later = {one.name: one for one in new.utility}
    for one in old.utility:
        now = later.get(one.name)
        if now is None:
            yield Change(weight=Weight.GONE, subject=old.name, text=f"{one.name} was not measured")
        elif abs(now.value - one.value) > SPREADS * max(one.spread, now.spread):
            text = f"{one.name} was {near(one.value, 3)}, is {near(now.value, 3)}"
            yield Change(weight=Weight.OTHER, subject=old.name, text=text)


def _of_policy(old: AuditReport, new: AuditReport) -> Iterator[Change]:
    later = {one.gate: one for one in new.policy}
    for gate in old.policy:
        now = later.get(gate.gate)
        if now is None:
            yield Change(weight=Weight.GONE, subject="", text=f"the gate {gate.gate} is not set any more")
        elif gate.met and not now.met:
            yield Change(weight=Weight.WORSE, subject="", text=f"the gate {gate.gate} was met, is not met")


def _accountant(source: str) -> str:
    """The accountant's name without its version, so that two versions can be compared."""
    return " ".join(re.sub(r"\d+(\.\d+)+", "", source).split())
