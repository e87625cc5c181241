"""Does it leak? The answer for each kind of access, how strong it is, and what would make it stronger. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from audit.core.access import Access
from audit.core.event_reading import unit
from audit.core.game import Inclusion
from audit.core.game_results import AttackResult, GameResult, TprAtFpr
from audit.core.lower_bounds import read_ceiling, read_epsilon
from audit.core.results import AuditReport, Check, MechanismResult, Status
from reports import headline
from reports.headline import GameBound

CLEAR = 1.0
"""A proven epsilon from which on the answer is a plain yes; NIST SP 800-226, 2.2, calls epsilon of at most 1 conservative."""

EXPECTED_HITS = 10
"""A headline rate needs so many expected false positives."""

ENOUGH_RECORDS = 64
"""Reference models from which on published attacks of this kind gain little."""

HALF = 4
"""An interval is half as wide with so many times the records."""


class Strength(StrEnum):
    """The answer in a word. There is none for "it does not leak"."""

    YES = "yes"
    LITTLE = "a little"
    NOT_SHOWN = "not shown"
    VOID = "no answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Members found by one attack at a false positive rate that was measured well; guessing finds `point.target_fpr`."""

    attack: AttackResult
    point: TprAtFpr


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an adversary with one kind of access was shown to tell.

    Attributes:
        proven: the largest bound for any mechanism at this access, None where no bound was computed.
        rate: of the attack behind `proven`, else of the attack that finds most; None where no rate was measured well.
        secret: what was guessed (`Game.secret`), "" where the question is membership.
        guesser: the attack behind `proven`, else the one with most right guesses; None where the question is membership.
    """

    mechanism: MechanismResult
    access: Access
    strength: Strength
    proven: GameBound | None
    rate: Rate | None = None
    secret: str = ""
    guesser: AttackResult | None = None


def answers(report: AuditReport) -> tuple[Answer, ...]:
    """The answers for the training that the first page speaks of: on membership, then on other secrets, by rising access."""
    subject = _subject(report)
    if subject is None:
        return ()
    levels: dict[tuple[str, Access], list[AttackResult]] = {}
    for game in subject.games:
        for attack in game.attacks:
            levels.setdefault((game.game.secret, attack.access or game.game.access), []).append(attack)
    order = sorted(levels, key=lambda level: (level[0], len(level[1].released)))
    return tuple(_answer(subject, secret, access, levels[secret, access]) for secret, access in order)


def protected_unit(report: AuditReport) -> str:
    """Return whom the first page asks about: whose contribution the claim or, without one, the training bounds."""
    subject = _subject(report)
    if subject is None:
        return "example"
    if subject.claims:
        return subject.claims[0].unit
    return "example" if subject.mechanism is None else unit(subject.mechanism)


def _subject(report: AuditReport) -> MechanismResult | None:
    head = headline.headline(report)
    return head.mechanism if head is not None else next((mechanism for mechanism in report.mechanisms if mechanism.games), None)


def _attacks(mechanism: MechanismResult) -> Iterator[tuple[GameResult, AttackResult]]:
    return ((game, attack) for game in mechanism.games if not game.game.secret for attack in game.attacks)


def _answer(mechanism: MechanismResult, secret: str, access: Access, attacks: list[AttackResult]) -> Answer:
    free = [bound for bound in headline.game_bounds(mechanism) if bound.access == access and bound.bound.family is None]
    strongest = headline.strongest([bound for bound in free if bound.game.game.secret == secret])
    leaders = [attack for attack in attacks if strongest is not None and attack.scorer == strongest.attack]
    guesser = _best_guesser(leaders) or _best_guesser(attacks)
    if mechanism.is_void:
        strength = Strength.VOID
    elif strongest is not None:
        strength = _of_bound(read_epsilon(strongest.bound))
    elif guesser is not None and guesser.guesses is not None:
        strength = Strength.LITTLE if guesser.guesses.lower > guesser.guesses.baseline else Strength.NOT_SHOWN
    else:
        strength = max((_of_bands(attack) for attack in attacks), key=list(Strength)[::-1].index)
    rate = None if secret else _finest(leaders) or _finest(attacks)
    return Answer(
        mechanism=mechanism, access=access, strength=strength, proven=strongest, rate=rate, secret=secret, guesser=guesser
    )


def _best_guesser(attacks: list[AttackResult]) -> AttackResult | None:
    """Return the attack that guessed the largest share of secrets right."""
    shares = [(attack.guesses.right / attack.guesses.secrets, attack) for attack in attacks if attack.guesses is not None]
    return max(shares, key=lambda pair: pair[0], default=(0.0, None))[1]


def _of_bound(epsilon: float) -> Strength:
    return Strength.YES if epsilon >= CLEAR else Strength.LITTLE if epsilon > 0 else Strength.NOT_SHOWN


def _of_bands(attack: AttackResult) -> Strength:
    """The strength where membership is a split: how far the simultaneous band of the ROC lies above chance."""
    curve = attack.roc
    smallest = 1 / max(curve.nonmembers, 1)
    ratio = max((low / max(fpr, smallest) for fpr, low in zip(curve.fpr, curve.lower, strict=True) if fpr < 1), default=0.0)
    if ratio >= math.exp(CLEAR):
        return Strength.YES
    return Strength.LITTLE if ratio > 1 or attack.auc_lower > 0.5 else Strength.NOT_SHOWN


def _finest(attacks: list[AttackResult]) -> Rate | None:
    """The largest rate at the smallest target that expects at least `EXPECTED_HITS` false positives.

    Where no attack has so many nonmembers, at the largest target that any attack resolves.
    """
    pairs = [Rate(attack=attack, point=point) for attack in attacks for point in attack.tpr_at if point.tpr is not None]
    solid = [pair for pair in pairs if pair.attack.roc.nonmembers * pair.point.target_fpr >= EXPECTED_HITS]
    targets = [pair.point.target_fpr for pair in solid]
    target = min(targets) if targets else max((pair.point.target_fpr for pair in pairs), default=0.0)
    return max(
        (pair for pair in pairs if pair.point.target_fpr == target), key=lambda pair: pair.point.tpr or 0.0, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whether membership, or the values of other secrets, were decided by what nobody could foresee.

    Attributes:
        of_secrets: no game is about membership, all are about other secrets.
        by_coins: recorded coins, else a split of the data or values that were given.
        alarms, repetitions, allowed: of all negative controls together; 0 repetitions where there was none.
        sound: no negative control raised more false alarms than it is allowed.
        guard: the row of the check whether inputs alone tell the two parts apart, None where it is not in the report.
    """

    of_secrets: bool
    by_coins: bool
    alarms: int
    repetitions: int
    allowed: int
    sound: bool
    guard: Check | None

    @property
    def status(self) -> Status:
        """Checked, failed, or a gap where nothing was tested."""
        if not self.sound or (self.guard is not None and self.guard.status is Status.FAILED):
            return Status.FAILED
        if self.by_coins:
            return Status.CHECKED if self.repetitions else Status.DECLARED
        return Status.GAP if self.guard is None else self.guard.status


def trust(report: AuditReport) -> Trust:
    """Return what is known of how membership was decided for the training on the first page."""
    subject = _subject(report)
    games = subject.games if subject is not None else ()
    controls = [control for game in games for control in game.controls]
    of_membership = [game.game for game in games if not game.game.secret]
    rules = of_membership or [game.game for game in games]
    return Trust(
        of_secrets=bool(games) and not of_membership,
        by_coins=any(game.inclusion is Inclusion.COINS for game in rules),
        alarms=sum(control.false_alarms for control in controls),
        repetitions=sum(control.repetitions for control in controls),
        allowed=sum(control.allowed for control in controls),
        sound=all(control.passed for control in controls),
        guard=next((check for check in (subject.checks if subject else ()) if check.code == "blind"), None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stronger:
    """What a stronger audit would need, in numbers.

    Attributes:
        coins: that the largest game has now, and `needed` with every guess right for a bound at the claim; 0 where the
            claim is in reach or there is none.
        records: on the smaller side of the leading attack now; `HALF` times as many halve the width of its interval.
        references: that the best black-box game has now, None where no attack asks for references.
    """

    epsilon: float
    coins: int
    needed: int
    records: int
    references: int | None


def stronger(report: AuditReport) -> Stronger | None:
    """Return what would make the answer stronger, or None where there was no attack."""
    subject = _subject(report)
    if subject is None or not any(True for _ in _attacks(subject)):
        return None
    claim = headline.tightest(subject)
    free = [place for place in headline.game_bounds(subject) if place.bound.family is None]
    widest = max(free, key=lambda place: read_ceiling(place.bound), default=None)
    coins = coins_needed = 0
    if claim is not None and widest is not None and read_ceiling(widest.bound) < claim.epsilon:
        coins = widest.game.game.canaries * widest.game.game.runs
        coins_needed = needed_coins(claim.epsilon, widest.bound.confidence)
    records = max(min(attack.roc.members, attack.roc.nonmembers) for _, attack in _attacks(subject))
    counts = [game.game.references for game in subject.games if game.game.access in (Access.FINAL_MODEL, Access.LABEL_ONLY)]
    return Stronger(
        epsilon=claim.epsilon if claim is not None else 0.0,
        coins=coins,
        needed=coins_needed,
        records=records,
        references=max(counts, default=None),
    )


def needed_coins(epsilon: float, confidence: float) -> int:
    """The least number of fair coins for which all guesses right prove `epsilon` at delta 0.

    Guarantee: under pure epsilon-DP all of n guesses are right with probability at most `(1 / (1 + e^-epsilon))^n`, so n
        right guesses refute it with error `1 - confidence` from `n >= ln(1 - confidence) / -ln(1 + e^-epsilon)` on. Every
        delta above 0 needs at least as many.

    References:
        Steinke, Nasr, Jagielski 2023, arXiv 2305.08846, Theorem 5.1.

    >>> needed_coins(1.0, 0.95), needed_coins(8.0, 0.95)
    (10, 8932)
    """
    return math.ceil(math.log(1 - confidence) / -math.log1p(math.exp(-epsilon)))
