"""Does it leak? The answer for each kind of access, how strong it is, and what would make it stronger. Pure functions."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from audit.core.access import Access
from audit.core.event_reading import unit
from audit.core.game import Inclusion
from audit.core.game_results import AttackResult, GameResult
from audit.core.lower_bounds import LowerBound, read_ceiling, read_epsilon
from audit.core.results import AuditReport, Check, MechanismResult, Status
from reports import headline
from reports.headline import GameBound
from reports.strength import Interval, Strength, bracket_guesses, bracket_rate, choose_strength

# a secret of the data as a whole: differential privacy of records bounds nothing of it, so no epsilon is said of it
PROPERTY = "property"

EXPECTED_HITS = 10  # a headline rate needs so many expected false positives

ENOUGH_RECORDS = 64  # reference models from which on published attacks of this kind gain little

MOST_GAMES = 24  # with pages of their own: a drawing takes a quarter of a second, and no one reads a thousand

HALF = 4  # an interval is half as wide with so many times the records
_LARGEST_EPSILON, MOST_COINS = 700.0, 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Members that an attack finds at a false positive rate, which is what guessing finds, with limits."""

    fpr: float
    tpr: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one attack in one game showed that an adversary with one kind of access can infer.

    Attributes:
        attack: the one that every figure of the answer is of.
        proven: its largest bound for any mechanism, or that of all attacks of its game together; None if there is none.
        rate: None if no rate was measured well.
        secret: what was guessed (`Game.secret`), "" if the question is membership.
    """

    mechanism: MechanismResult
    game: GameResult
    attack: AttackResult
    access: Access
    strength: Strength
    proven: GameBound | None
    rate: Rate | None = None
    secret: str = ""

    @property
    def epsilon(self) -> float:
        """Return what is proven for any mechanism, 0 if nothing is."""
        return 0.0 if self.proven is None or not isinstance(self.proven.bound, LowerBound) else self.proven.bound.epsilon


def answers(report: AuditReport) -> tuple[Answer, ...]:
    """The strongest answer first, then the others: on membership, then on other secrets, by rising access.

    A federation is answered for every party, and the one that proves most leads. Any other report is answered for the training
    that its first page speaks of; of equally strong answers the one of the attack that decides the claim leads.
    """
    head = headline.headline(report)
    decisive = None if head is None or head.proven is None else (head.proven.game.name, head.proven.attack)
    subject, parties = _subject(report), [part for part in report.mechanisms if part.training and part.games]
    subjects = parties or ([] if subject is None else [subject])
    candidates = [answer for mechanism in subjects for answer in _answer_questions(mechanism)]
    order = list(Strength)

    def rank(answer: Answer) -> tuple[float, ...]:
        is_of_claim = len(subjects) == 1 and head is not None and answer.mechanism is head.mechanism
        is_decisive = is_of_claim and (answer.game.name, answer.attack.scorer) == decisive
        return order.index(answer.strength), not is_decisive, -answer.epsilon, -answer.attack.auc_or_zero

    lead = min(candidates, key=rank, default=None)
    return () if lead is None else (lead, *(answer for answer in candidates if answer is not lead))


def gravest(report: AuditReport, trainings: Sequence[MechanismResult]) -> list[MechanismResult]:
    """Return trainings from the gravest on, after the one that the first page answers for."""
    lead = next((item.mechanism.name for item in answers(report)), "")
    return sorted(trainings, key=lambda training: (training.name != lead, headline.gravity(training)))


def paged_trainings(report: AuditReport) -> tuple[MechanismResult, ...]:
    """Return the trainings with pages and drawings of their own, each with its games that have them: of many the gravest."""
    room, pages = MOST_GAMES, {}
    for training in gravest(report, report.mechanisms):
        part = training if len(training.games) <= room else replace(training, games=training.games[:room])
        pages[id(training)] = part
        room -= max(1, len(part.games))
        if room <= 0:
            break
    return tuple(pages[id(training)] for training in headline.by_gravity(report) if id(training) in pages)


def strongest_word(mechanism: MechanismResult, game: GameResult) -> Strength:
    """Return the word for what the attacks of one game showed, whatever they see."""
    words = [answer.strength for answer in _answer_questions(replace(mechanism, games=(game,)))]
    return min(words, key=list(Strength).index, default=Strength.VOID)


def _answer_questions(mechanism: MechanismResult) -> Iterator[Answer]:
    """One answer for each question and access: that of the game and attack which show most."""
    levels: dict[tuple[str, Access], list[Answer]] = {}
    for game in mechanism.games:
        by_access: dict[Access, list[AttackResult]] = {}
        for attack in game.attacks:
            by_access.setdefault(attack.access or game.game.access, []).append(attack)
        for access, attacks in by_access.items():
            answer = _answer(mechanism, game, access, attacks)
            levels.setdefault((game.game.secret, access), []).append(answer)
    order = list(Strength)
    for level in sorted(levels, key=lambda level: (level[0], len(level[1].released))):
        yield min(levels[level], key=lambda answer: (order.index(answer.strength), -answer.epsilon, -answer.attack.auc_or_zero))


def _answer(mechanism: MechanismResult, game: GameResult, access: Access, attacks: list[AttackResult]) -> Answer:
    """The answer of the attack that a figure of the game shows in full, from among those with this access."""
    attack = headline.leading(replace(game, attacks=tuple(attacks)))
    places = (place for place in headline.game_bounds(mechanism) if place.game is game and place.access == access)
    own = (place for place in places if place.attack in (attack.scorer, headline.TOGETHER))
    proven = headline.strongest([place for place in own if place.bound.family is None])
    rate = None  # where a split's ROC is furthest above guessing; else that at the smallest target measured well
    if game.game.choices == 1:
        rate = (None if game.game.inclusion is Inclusion.COINS else _furthest(attack)) or _finest(attack)
    if mechanism.is_void:
        strength = Strength.VOID
    else:
        follows = proven is not None and isinstance(proven.bound, LowerBound) and game.game.secret != PROPERTY
        epsilon = read_epsilon(proven.bound) if proven is not None and follows else 0.0
        strength = choose_strength(epsilon, _interval(attack, rate))
        if strength in (Strength.TOO_FEW, Strength.NOT_SHOWN) and _tells_apart(game, attack):
            strength = Strength.AT_LEAST if strength is Strength.TOO_FEW else Strength.LITTLE
    secret = game.game.secret
    return Answer(
        mechanism=mechanism,
        game=game,
        attack=attack,
        access=access,
        strength=strength,
        proven=None if secret == PROPERTY else proven,
        rate=rate,
        secret=secret,
    )


def _tells_apart(game: GameResult, attack: AttackResult) -> bool:
    """True if a split has no bound, and the whole order of the scores shows what no single rate does."""
    return game.game.inclusion is not Inclusion.COINS and game.game.choices == 1 and (attack.auc_lower or 0.0) > 0.5


def _interval(attack: AttackResult, rate: Rate | None) -> Interval | None:
    if attack.guesses is not None:
        return bracket_guesses(attack.guesses.lower, attack.guesses.upper, attack.guesses.baseline)
    return None if rate is None else bracket_rate(rate.lower, rate.upper, rate.fpr)


def _furthest(attack: AttackResult) -> Rate | None:
    """The point of the ROC whose simultaneous band is furthest above guessing by its ratio; None if none is above."""
    curve = attack.roc
    least_fpr = EXPECTED_HITS / max(curve.nonmembers, 1)  # below it chance makes large ratios
    points = [point for point in zip(curve.fpr, curve.tpr, curve.lower, curve.upper, strict=True) if least_fpr <= point[0] < 1]
    fpr, tpr, lower, upper = max(points, key=lambda point: point[2] / point[0], default=(1.0, 1.0, 1.0, 1.0))
    return Rate(fpr=fpr, tpr=tpr, lower=lower, upper=upper) if lower > fpr else None


def _finest(attack: AttackResult) -> Rate | None:
    """The rate at the smallest target that expects `EXPECTED_HITS` false positives; without one at the largest target."""
    points = [point for point in attack.tpr_at if point.tpr is not None]
    solid = [point for point in points if attack.roc.nonmembers * point.target_fpr >= EXPECTED_HITS]
    best = min(solid, key=lambda point: point.target_fpr, default=max(points, key=lambda p: p.target_fpr, default=None))
    if best is None or best.tpr is None or best.lower is None or best.upper is None:
        return None
    return Rate(fpr=best.target_fpr, tpr=best.tpr, lower=best.lower, upper=best.upper)


def is_split(mechanism: MechanismResult) -> bool:
    """Return whether a split of the data decided membership in every game, so that no epsilon follows."""
    return bool(mechanism.games) and all(game.game.inclusion is not Inclusion.COINS for game in mechanism.games)


def protected_unit(report: AuditReport) -> str:
    """Return whom the first page asks about: the unit whose contribution the claim or, without one, the training bounds."""
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


KINDS_WITH_OWN_COINS = ("run", "training")  # kinds of reports with coins that the audit drew; others were given their outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whether membership, or the values of other secrets, were decided by what no one could foresee.

    Attributes:
        of_secrets: no game is about membership, all are about other secrets.
        by_coins: recorded coins, else a split of the data or values that were given.
        by_this_audit: the audit drew those coins itself; else it was given their outcomes.
        alarms, repetitions, allowed: of all negative controls together; 0 repetitions if there was none.
        sound: no negative control raised more false alarms than it is allowed.
        guard: the row of the check whether inputs alone distinguish the two parts, None if it is not in the report.
    """

    of_secrets: bool
    by_coins: bool
    by_this_audit: bool
    alarms: int
    repetitions: int
    allowed: int
    sound: bool
    guard: Check | None

    @property
    def status(self) -> Status:
        """Checked, failed, or a gap if nothing was tested."""
        if not self.sound or (self.guard is not None and self.guard.status is Status.FAILED):
            return Status.FAILED
        if self.by_coins:
            return Status.CHECKED if self.by_this_audit else Status.DECLARED
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
        by_this_audit=report.kind in KINDS_WITH_OWN_COINS,
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
        coins: that the largest game has now, and `needed` with every guess right for a bound at the claim; 0 if the
            claim is in reach or there is none.
        records: on the smaller side of the leading attack now; `HALF` times as many halve the width of its interval.
        references: that the best black-box game has now, None if no attack asks for references.
    """

    epsilon: float
    coins: int
    needed: int
    records: int
    references: int | None


def stronger(report: AuditReport) -> Stronger | None:
    """Return what would make the answer stronger, or None if there was no attack."""
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
        delta above 0 needs at least as many. Beyond 10^9, which no audit plants, that number is returned.

    References:
        Steinke, Nasr, Jagielski 2023, arXiv 2305.08846, Theorem 5.1.

    >>> needed_coins(1.0, 0.95), needed_coins(8.0, 0.95)
    (10, 8932)
    """
    # log1p: from an epsilon of 37 on 1 + e^-epsilon is 1 in floats, and its logarithm 0
    coins = math.log(1 - confidence) / -math.log1p(math.exp(-epsilon)) if epsilon < _LARGEST_EPSILON else math.inf
    return math.ceil(coins) if coins < MOST_COINS else MOST_COINS
