"""One error budget a report: bounds on all attacks hold together, at a share each that is fixed before any score is seen."""

from collections.abc import Sequence
from dataclasses import dataclass

from audit.bounds import group_privacy as group
from audit.core.lower_bounds import LowerBound
from audit.core.protocols import Estimator
from audit.core.seeds import Seed
from audit.core.views import Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The error that all bounds of a report may make together.

    Attributes:
        confidence: with which all bounds hold at once.
        certificates: simulated audits behind a game's calibration certificate; 0 simulates nothing.
    """

    delta: float
    confidence: float
    comparisons: int
    certificates: int = 0

    @property
    def level(self) -> float:
        """The confidence of each single bound."""
        return share(self.confidence, self.comparisons)


def share(confidence: float, comparisons: int) -> float:
    """The confidence of one bound such that `comparisons` of them hold together with `confidence` (Bonferroni).

    >>> round(share(0.95, 5), 6)
    0.99
    """
    return 1 - (1 - confidence) / max(comparisons, 1)


def bounds(
    scores: Scores, estimators: Sequence[Estimator], *, delta: float, confidence: float, seed: Seed
) -> tuple[LowerBound, ...]:
    """One lower bound per estimator, each at `confidence` (already the split share); `AssumptionError` if an estimator assumes
    what the game does not grant.
    """
    bounds = []
    for index, estimator in enumerate(estimators):
        scores.game.require(estimator.assumes, type(estimator).__name__)
        stream = seed.child("estimator", index)
        if scores.game.copies > 1:
            bounds.append(group.bound(estimator, scores, delta=delta, confidence=confidence, seed=stream))
        else:
            bounds.append(estimator.lower_bound(scores, delta=delta, confidence=confidence, seed=stream))
    return tuple(bounds)
