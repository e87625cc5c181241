"""What a report says at a glance: which mechanism, claim and bound the cover speaks of. Pure functions of `AuditReport`."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.core.access import Access
from audit.core.claims import Claim, NegativeControl, Outcome, Verdict
from audit.core.game import Inclusion
from audit.core.game_results import AttackResult, GameResult, TprAtFpr
from audit.core.lower_bounds import ReportedBound, read_ceiling, read_epsilon
from audit.core.results import AuditReport, MechanismResult, Metric

TOGETHER = "all together"
GRAVEST = (Outcome.VIOLATED, Outcome.INVALID, Outcome.OUT_OF_REACH, Outcome.CONSISTENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class GameBound:
    """A bound with its game, its attack or that of all together, and the least an adversary has to see for it."""

    bound: ReportedBound
    game: GameResult
    attack: str
    access: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSource:
    """An attack, or all attacks of a game that could stop at the first proof, without a result of their own."""

    name: str
    bounds: tuple[ReportedBound, ...]
    control: NegativeControl | None
    result: AttackResult | None = None


def sources(game: GameResult) -> tuple[BoundSource, ...]:
    """Return where a game's bounds come from, in the order of its attacks."""
    apart = tuple(
        BoundSource(name=attack.scorer, bounds=attack.bounds, control=attack.control, result=attack) for attack in game.attacks
    )
    if game.watched is None:
        return apart
    name = game.attacks[0].scorer if len(game.attacks) == 1 else TOGETHER
    return (*apart, BoundSource(name=name, bounds=game.watched.bounds, control=game.watched.control))


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What the cover speaks of: one mechanism, the claim that decides, the evidence against it."""

    mechanism: MechanismResult
    verdict: Verdict
    proven: GameBound | None
    ceiling: float


def game_bounds(mechanism: MechanismResult) -> Iterator[GameBound]:
    """Every bound of a mechanism with where it comes from."""
    for game in mechanism.games:
        for source in sources(game):
            access = game.game.access if source.result is None else source.result.access or game.game.access
            for bound in source.bounds:
                yield GameBound(bound=bound, game=game, attack=source.name, access=access)


def strongest(bounds: Sequence[GameBound]) -> GameBound | None:
    """The largest bound; of equal ones the first."""
    return max(bounds, key=lambda place: read_epsilon(place.bound), default=None)


def free(mechanism: MechanismResult) -> GameBound | None:
    """The largest bound that holds for any mechanism."""
    return strongest([bound for bound in game_bounds(mechanism) if bound.bound.family is None])


def in_family(mechanism: MechanismResult) -> GameBound | None:
    """The largest bound that holds inside a declared family of trade-off curves."""
    return strongest([bound for bound in game_bounds(mechanism) if bound.bound.family is not None])


def levels(mechanism: MechanismResult) -> dict[Access, tuple[GameBound, ...]]:
    """The bounds by what an adversary has to see for them, from least to most; levels that no one tried are left out."""
    by_access: dict[Access, list[GameBound]] = {}
    for bound in game_bounds(mechanism):
        by_access.setdefault(bound.access, []).append(bound)
    return {level: tuple(by_access[level]) for level in sorted(by_access, key=lambda access: len(access.released))}


def admissible(claim: Claim, mechanism: MechanismResult) -> tuple[GameBound, ...]:
    """The bounds that are able to refute `claim`: assumption-free ones, and those of the family it asserts."""
    return tuple(bound for bound in game_bounds(mechanism) if claim.can_be_refuted_by(bound.bound))


def deciding(mechanism: MechanismResult) -> Verdict | None:
    """The verdict that gives the mechanism its outcome: among those of that outcome the tightest claim."""
    decisive = [verdict for verdict in mechanism.verdicts if verdict.outcome is mechanism.outcome]
    return min(decisive, key=lambda verdict: verdict.claim.epsilon, default=None)


def headline(report: AuditReport) -> Headline | None:
    """Return what the cover speaks of, or None if nothing was claimed."""
    judgements = [mechanism for mechanism in report.mechanisms if mechanism.outcome is not None and deciding(mechanism)]
    mechanism = min(judgements, key=lambda mechanism: GRAVEST.index(mechanism.outcome or Outcome.CONSISTENT), default=None)
    verdict = deciding(mechanism) if mechanism else None
    if mechanism is None or verdict is None:
        return None
    able = admissible(verdict.claim, mechanism)
    proof = next((bound for bound in able if bound.bound == verdict.bound), strongest(able))
    ceiling = max((read_ceiling(bound.bound) for bound in able), default=0.0)
    return Headline(mechanism=mechanism, verdict=verdict, proven=proof, ceiling=ceiling)


def is_coarse(attack: AttackResult) -> bool:
    """True if the report is an edition that gives rates in coarse steps, without the counts behind them."""
    return any(point.tpr is not None and point.realised_fpr is None for point in attack.tpr_at)


def tightest(mechanism: MechanismResult) -> Claim | None:
    """The smallest finite claim; the figures draw its limit."""
    finite = [claim for claim in mechanism.claims if math.isfinite(claim.epsilon)]
    return min(finite, key=lambda claim: claim.epsilon, default=None)


def by_gravity(report: AuditReport) -> tuple[MechanismResult, ...]:
    """The mechanisms with those that claim something first, otherwise in the order of the configuration."""
    return tuple(sorted(report.mechanisms, key=lambda mechanism: not mechanism.claims))


def gravity(mechanism: MechanismResult) -> tuple[int, float]:
    """Return what sorts trainings from the gravest on: the outcome of their claims, then how much of the claim is proven."""
    claim = tightest(mechanism)
    if mechanism.outcome is None or claim is None:
        return len(GRAVEST), 0.0
    proven = max((read_epsilon(place.bound) for place in admissible(claim, mechanism)), default=0.0)
    return GRAVEST.index(mechanism.outcome), -proven / max(claim.epsilon, 1e-9)  # a claim may be 0


def utility(report: AuditReport) -> tuple[tuple[str, tuple[Metric, ...]], ...]:
    """Return what each training is good for, by its name; a training that several parties look at has its figures once."""
    by_name: dict[str, tuple[Metric, ...]] = {}
    for result in by_gravity(report):
        agrees = by_name.get(result.training, result.utility) == result.utility
        by_name[result.training if result.training and agrees else result.name] = result.utility
    return tuple((name, metrics) for name, metrics in by_name.items() if metrics)


def leading(game: GameResult) -> AttackResult:
    """The attack a figure shows in full: the largest assumption-free bound decides, then the AUC."""
    return max(
        game.attacks,
        key=lambda attack: (max((read_epsilon(b) for b in attack.bounds if b.family is None), default=0.0), attack.auc_or_zero),
    )


def rate_at(game: GameResult, rate: float) -> tuple[AttackResult, TprAtFpr] | None:
    """The attack with the largest TPR at a false positive rate, or None if no attack resolves it."""
    points = ((attack, point) for attack in game.attacks for point in attack.tpr_at if point.target_fpr == rate)
    return max((pair for pair in points if pair[1].tpr is not None), key=lambda pair: pair[1].tpr or 0.0, default=None)


def has_coins(report: AuditReport) -> bool:
    """True if some game decided membership by recorded coins."""
    return any(game.game.inclusion is Inclusion.COINS for game in report.games)


def allowed_tpr(fpr: float, epsilon: float, delta: float) -> float:
    """The largest true positive rate that (epsilon, delta)-DP leaves an attack at a false positive rate.

    Guarantee: `tpr <= e^epsilon fpr + delta` and `1 - fpr <= e^epsilon (1 - tpr) + delta` for every attack.

    References:
        Kairouz, Oh, Viswanath 2015, arXiv 1311.0776, Theorem 2.1.

    >>> allowed_tpr(0.01, 0.0, 0.0)
    0.01
    """
    if epsilon == math.inf:
        return 1.0
    low = math.exp(min(epsilon, 700.0)) * fpr + delta  # e^710 is beyond all floats
    high = 1 - math.exp(-epsilon) * (1 - fpr - delta)
    return max(0.0, min(1.0, low, high))
