"""Limits on figures of a report."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from audit.core import checks
from audit.core.game_results import AttackResult
from audit.core.results import MechanismResult
from audit.plugins import name_classes


# Figures that gates read off results.
def largest(values: Iterable[float]) -> float | None:
    return max(values, default=None)


def attacks(results: Sequence[MechanismResult]) -> Iterable[AttackResult]:
    return (attack for result in results for game in result.games for attack in game.attacks)


def tprs(results: Sequence[MechanismResult], rate: float) -> Iterable[float]:
    """Yield the true positive rates at a false positive rate, of every attack that resolves it."""
    points = (point for attack in attacks(results) for point in attack.tpr_at if point.target_fpr == rate)
    return (point.tpr for point in points if point.tpr is not None)


def at_most(figure: float | None, limit: float) -> bool:
    return figure is not None and figure <= limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A gate with a share of 1 as its limit, `key` of a policy; a subclass finds its figure, which stays within the limit."""

    position: ClassVar[int]
    key: ClassVar[str]

    limit: float

    def __post_init__(self) -> None:
        checks.open_probability(self.limit, self.key)

    def met(self, figure: float | None) -> bool:
        return at_most(figure, self.limit)


class Positive(Share):
    """A gate with an epsilon above 0 as its limit."""

    def __post_init__(self) -> None:
        checks.positive(self.limit, self.key)


class MaxClaimedEpsilon(Positive):
    """The epsilon of the tightest claim of each mechanism, at most."""

    position = 10
    key = "max_claimed_epsilon"

    def found(self, results: Sequence[MechanismResult]) -> float | None:
        return largest(min(claim.epsilon for claim in result.claims) for result in results if result.claims)


class MaxProvenEpsilon(Positive):
    """The epsilon that is proven without assuming a family, at most."""

    position = 20
    key = "max_proven_epsilon"

    def found(self, results: Sequence[MechanismResult]) -> float | None:
        return largest(bound.epsilon for result in results for bound in result.bounds)


class MaxTprAt1PercentFpr(Share):
    """The true positive rate of any attack at a false positive rate of 1 %, at most."""

    position = 30
    key = "max_tpr_at_1_percent_fpr"

    def found(self, results: Sequence[MechanismResult]) -> float | None:
        return largest(tprs(results, 0.01))


class MaxAuc(Share):
    """The AUC of any attack, at most."""

    position = 40
    key = "max_auc"

    def found(self, results: Sequence[MechanismResult]) -> float | None:
        return largest(attack.auc for attack in attacks(results) if attack.auc is not None)


class MinAccuracy(Share):
    """The accuracy of the models of each mechanism, at least."""

    position = 50
    key = "min_accuracy"

    def found(self, results: Sequence[MechanismResult]) -> float | None:
        return min((metric.value for result in results for metric in result.utility if metric.name == "accuracy"), default=None)

    def met(self, figure: float | None) -> bool:
        return figure is not None and figure >= self.limit


PLUGINS = name_classes(MaxClaimedEpsilon, MaxProvenEpsilon, MaxTprAt1PercentFpr, MaxAuc, MinAccuracy)
