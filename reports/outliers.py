"""Which records are outliers beyond chance: the tests behind every table that names records."""

import math
from dataclasses import dataclass

from audit.core.evaluation import Evaluation, RecordSpread
from audit.core.game_results import GameResult, RecordExposure
from reports import headline

SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Outliers:
    """Members of one target with outlying scores, of those tested, each with how many nonmembers score at least as high."""

    records: tuple[tuple[RecordExposure, int], ...]
    tested: int
    nonmembers: int


def target_outliers(game: GameResult) -> Outliers | None:
    """Members that are outliers among the nonmembers of a game's one target; None if the game had several targets.

    Guarantee: among the members named, the expected share of those that are exchangeable with the nonmembers is at most
        `SIGNIFICANCE` (Benjamini and Hochberg over all members; the p-value of a member is its rank among the nonmembers,
        (k + 1) / (n + 1), valid without any distribution, and positively dependent because all share the nonmembers).

    References:
        Benjamini, Hochberg 1995; Bates et al. 2023, arXiv 2104.08279, Theorem 2.
    """
    if not game.attacks or game.game.runs != 1:
        return None
    curve = headline.leading(game).roc
    members = sorted((record for record in game.records if record.member), key=lambda record: (record.fpr, record.rank))
    above = [round(member.fpr * curve.nonmembers) for member in members]  # reports hold shares, and the test counts
    length = 0
    for place, count in enumerate(above, start=1):
        # the last place that passes decides; earlier ones may fail by themselves
        if (count + 1) / (curve.nonmembers + 1) <= SIGNIFICANCE * place / curve.members:
            length = place
    return Outliers(
        records=tuple(zip(members[:length], above[:length], strict=True)), tested=curve.members, nonmembers=curve.nonmembers
    )


def of_models(evaluation: Evaluation, canaries: int) -> tuple[RecordSpread, ...]:
    """Records found in more of the models trained on them than a nonmember is, at the same false positive rate.

    Guarantee: a record with scores in those models drawn as those of nonmembers, anew for each model, is named with
        probability at most `SIGNIFICANCE / canaries` (binomial tail), so any such record with at most `SIGNIFICANCE`.
    """
    limit = SIGNIFICANCE / max(canaries, 1)
    return tuple(
        record
        for record in evaluation.records
        if tail(round(record.found * record.targets), record.targets, evaluation.at_fpr) <= limit
    )


def tail(successes: int, trials: int, probability: float) -> float:
    """The probability of at least so many successes, each of a `probability` between 0 and 1.

    >>> round(tail(2, 2, 0.5), 6), tail(0, 5, 0.1)
    (0.25, 1.0)
    """
    if successes <= 0:
        return 1.0
    odds, remainder = math.log(probability), math.log1p(-probability)  # binomial coefficients may be beyond all floats
    logs = (_log_choose(trials, k) + k * odds + (trials - k) * remainder for k in range(successes, trials + 1))
    return min(1.0, math.fsum(math.exp(value) for value in logs))


def _log_choose(total: int, size: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(size + 1) - math.lgamma(total - size + 1)
