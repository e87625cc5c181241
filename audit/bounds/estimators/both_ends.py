"""The default for independent trials: right guesses at both ends of the ranking, all numbers of guesses at once."""

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.bounds.estimators import _shared
from audit.bounds.estimators._shared import TRIALS
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.phrases import phrase
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import both_ends, ranks
from audit.stats.curves.tradeoff import GroupPairs


@dataclass(frozen=True, slots=True, kw_only=True)
class BothEnds:
    """Counts members among the highest scores and nonmembers among the lowest, and takes the count that is most surprising.

    The law of that surprise is simulated under the least favourable pair of (epsilon, delta)-DP, with a stream fixed by the
    numbers of scores: the seed of a call changes nothing.

    Guarantee: `epsilon` exceeds the true epsilon with probability at most `1 - confidence`, for trials independent and
        identically distributed given membership (docs/theory/independent-trials.md, "Both ends").
    """

    assumes: ClassVar[frozenset[Assumption]] = TRIALS

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The largest epsilon that the guesses refute; `DataError` if one side is empty."""
        ranking, pairs = _ranking(scores, delta, confidence), GroupPairs(delta=delta)
        epsilon, at = both_ends.bound(ranking, pairs, 1 - confidence)
        members, guesses = int(ranking.sum()), both_ends.counts(len(ranking))
        right = both_ends.right_guesses(ranking)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="both_ends",
            comparisons=len(guesses),
            ceiling=max(epsilon, _ceiling(members, len(ranking) - members, pairs, confidence)),
            assumes=tuple(self.assumes),
            selected=phrase("{right} of {guesses} guesses right", right=right[at], guesses=2 * guesses[at]) if at >= 0 else "",
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if one of the tests refutes (epsilon, delta)-DP."""
        ranking = _ranking(scores, delta, confidence)
        return both_ends.refutes(ranking, epsilon, delta, 1 - confidence)

    def bound_along(self, scores: Scores, pairs: both_ends.Pairs, *, confidence: float, seed: Seed) -> tuple[float, float]:
        """The parameter up to which every pair is refuted, and what perfect scores would refute."""
        ranking = _ranking(scores, pairs(0.0)[1], confidence)
        members = int(ranking.sum())
        epsilon, _ = both_ends.bound(ranking, pairs, 1 - confidence)
        return epsilon, max(epsilon, _ceiling(members, len(ranking) - members, pairs, confidence))


def _ranking(scores: Scores, delta: float, confidence: float) -> ranks.Memberships:
    return _shared.rank(scores, "both_ends", delta, confidence, text="delta")


@functools.lru_cache(maxsize=256)
def _ceiling(members: int, nonmembers: int, pairs: both_ends.Pairs, confidence: float) -> float:
    return both_ends.bound(np.arange(members + nonmembers) < members, pairs, 1 - confidence)[0]


PLUGIN = BothEnds
