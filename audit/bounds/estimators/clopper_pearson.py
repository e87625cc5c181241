"""Clopper-Pearson limits on both error rates at a threshold that was fixed without looking at the answers."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.bounds.estimators import _shared
from audit.bounds.estimators._shared import TRIALS
from audit.core import checks, score_values
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import binomial, ranks

CHOICES = ("rank", "split", "fixed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClopperPearson:
    """The classic rectangle of error rates, both directions, with an honest choice of threshold.

    Attributes:
        threshold_by: "rank" (thresholds at ranks fixed in advance, error rate split over them), "split" (chosen on
            every second row of each side, tested on the others) or "fixed" (`threshold`).
        threshold: used with "fixed"; must not come from these scores.

    Guarantee: `epsilon` exceeds the true epsilon with probability at most `1 - confidence` for trials that are independent
        and identically distributed given membership.
    References: Clopper and Pearson 1934; Jagielski, Ullman and Oprea 2020, arXiv 2006.07709.
    """

    assumes: ClassVar[frozenset[Assumption]] = TRIALS

    threshold_by: str = "rank"
    threshold: float = 0.0
    ratio: float = 3.0

    def __post_init__(self) -> None:
        checks.choice(self.threshold_by, "threshold_by", CHOICES)
        _shared.demand_ratio(self.ratio)

    @property
    def nested_in_delta(self) -> bool:
        """True if whatever refutes one delta refutes less: not if the threshold is chosen for one delta."""
        return self.threshold_by != "split"

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The best of the family's rectangles; `DataError` if one side is empty, or "split" gets rows that are sorted by
        score.
        """
        checks.both_sides(scores.included, "clopper_pearson")
        checks.probability(delta, "delta")
        significance = 1 - checks.open_probability(confidence, "confidence")
        members, nonmembers = len(scores.members), len(scores.nonmembers)
        comparisons = 1
        if self.threshold_by == "rank":
            ranking = ranks.by_rank(scores.values, scores.included)
            perfect = np.arange(members + nonmembers) < members
            ceiling = binomial.by_rank_bound(perfect, delta=delta, significance=significance, ratio=self.ratio)[0]
            epsilon, threshold, comparisons = binomial.by_rank_bound(
                ranking, delta=delta, significance=significance, ratio=self.ratio
            )
        elif self.threshold_by == "split":
            epsilon, ceiling, threshold = _split(scores, delta, significance)
        else:
            epsilon = binomial.fixed_bound(
                scores.members, scores.nonmembers, self.threshold, delta=delta, significance=significance
            )
            ceiling = binomial.separation_ceiling(members, nonmembers, delta, significance)
            threshold = f"threshold {self.threshold:.6g}"
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="clopper_pearson",
            comparisons=comparisons,
            ceiling=max(epsilon, ceiling),
            assumes=tuple(self.assumes),
            selected=threshold if epsilon > 0 else "",
        )


def _split(scores: Scores, delta: float, significance: float) -> tuple[float, float, str]:
    """Bound, ceiling and threshold; every second row of each side chooses the threshold and the others decide. Raises
    `DataError` if the rows of a side are sorted by score.
    """
    # by rows, not by ranks: in a fixed choice of ranks the choosing half would tell where the deciding half is
    members = score_values.check_order(scores.members, "members", "clopper_pearson with threshold_by 'split'")
    nonmembers = score_values.check_order(scores.nonmembers, "nonmembers", "clopper_pearson with threshold_by 'split'")
    if min(len(members), len(nonmembers)) < 2:
        return 0.0, 0.0, ""
    threshold = binomial.best_threshold(members[1::2], nonmembers[1::2], delta=delta, significance=significance)
    deciding = members[::2], nonmembers[::2]
    epsilon = binomial.fixed_bound(*deciding, threshold, delta=delta, significance=significance)
    ceiling = binomial.separation_ceiling(len(deciding[0]), len(deciding[1]), delta, significance)
    return epsilon, ceiling, f"threshold {threshold:.6g} from the other half"


PLUGIN = ClopperPearson
