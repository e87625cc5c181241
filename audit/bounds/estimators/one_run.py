"""One run, any mechanism: count right guesses among the most confident ones."""

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.bounds.estimators import _shared
from audit.bounds.estimators._shared import COINS
from audit.core import checks
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.phrases import phrase
from audit.core.protocols import Pairs
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.arrays import Array, Counts
from audit.stats.bounds import guess_split, one_run_all_counts, one_run_guesses, ranks
from audit.stats.curves.tradeoff import GroupPairs

CALIBRATIONS = ("joint", "each")
ORDERS = ("ends", "distance")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """Guesses the highest scores as members and the lowest as nonmembers, for guess counts registered beforehand.

    If the two parts of the scores meet is read off the scores alone (`guess_split.cut_between_sides`): the guesses of a
    count are taken from both ends in turn until one part is used up.

    Attributes:
        guess_fractions: shares of the coins that are guessed; None for those that fit the number of coins.
        calibration: "joint" compares all counts with one boundary and follows exactly its chance of being crossed anywhere
            (docs/theory/one-run.md, "One run, all counts together"); "each" tests every count at an equal share of the
            error rate with the p-value of one count.
        order: which guesses are the surest: "ends" takes the highest and the lowest scores in turn, "distance" those farthest
            from the cut between the sides, for scores whose size says how sure they are (log odds).

    Guarantee: `epsilon` exceeds the true epsilon with probability at most `1 - confidence` when memberships are independent
        fair coins, for any dependence between scores; scores of R runs with m coins each count as one run with R m coins,
        since the composed mechanism is (epsilon, delta)-DP in each coin (docs/theory/one-run.md).
    References: Steinke, Nasr and Jagielski 2023, arXiv 2305.08846.
    """

    assumes: ClassVar[frozenset[Assumption]] = COINS

    guess_fractions: tuple[float, ...] | None = None
    calibration: str = "joint"
    order: str = "ends"

    def __post_init__(self) -> None:
        checks.choice(self.calibration, "calibration", CALIBRATIONS)
        checks.choice(self.order, "order", ORDERS)
        if self.guess_fractions is not None:
            object.__setattr__(self, "guess_fractions", _shared.read_fractions(self.guess_fractions))

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The largest epsilon that the guesses refute; `DataError` if one side is empty."""
        coins = len(scores.values)
        guesses, correct = self._counts(scores, delta, confidence)
        pairs = GroupPairs(delta=delta)
        epsilon, at = self._search(pairs, guesses, correct, coins, 1 - confidence)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="one_run",
            comparisons=len(guesses),
            ceiling=max(epsilon, self._ceiling(scores, pairs, confidence)),
            assumes=tuple(self.assumes),
            selected=phrase("{right} of {guesses} guesses right", right=correct[at], guesses=guesses[at]) if at >= 0 else "",
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if one of the registered counts refutes (epsilon, delta)-DP."""
        guesses, correct = self._counts(scores, delta, confidence)
        coins, significance = len(scores.values), 1 - confidence
        if self.calibration == "joint":
            walk = one_run_all_counts.Walk(guesses=guesses, correct=correct, coins=coins, delta=delta)
            return one_run_all_counts.refutes(walk, epsilon, significance)
        return one_run_guesses.refutes(guesses, correct, coins=coins, epsilon=epsilon, delta=delta, significance=significance)

    def bound_along(self, scores: Scores, pairs: Pairs, *, confidence: float, seed: Seed) -> tuple[float, float]:
        """The parameter up to which the guesses refute every pair, and what perfect guesses would refute."""
        guesses, correct = self._counts(scores, pairs(0.0)[1], confidence)
        epsilon, _ = self._search(pairs, guesses, correct, len(scores.values), 1 - confidence)
        return epsilon, max(epsilon, self._ceiling(scores, pairs, confidence))

    def _search(self, pairs: Pairs, guesses: Counts, correct: Counts, coins: int, significance: float) -> tuple[float, int]:
        """The parameter up to which every pair is refuted, and the index of the most informative count there (or -1)."""
        return _find_bound(self, pairs, (tuple(guesses.tolist()), tuple(correct.tolist())), coins, significance)

    def _counts(self, scores: Scores, delta: float, confidence: float) -> tuple[Counts, Counts]:
        """Numbers of guesses, and of right ones among them."""
        checks.both_sides(scores.included, "one_run")
        checks.open_probability(confidence, "confidence")
        checks.probability(delta, "delta")
        return self._count(scores.values, scores.included)

    def _count(self, values: Array, included: ranks.Memberships) -> tuple[Counts, Counts]:
        guesses = guess_split.guess_numbers(len(values), self.guess_fractions or guess_split.shares_for(len(values)))
        cut = guess_split.cut_between_sides(values)
        if self.order == "distance":
            return guesses, guess_split.correct_farthest(values, included, guesses, cut)
        return guesses, guess_split.correct_guesses(ranks.by_rank(values, included), guesses, cut)

    def _ceiling(self, scores: Scores, pairs: Pairs, confidence: float) -> float:
        return _ceiling(self, len(scores.members), len(scores.nonmembers), pairs, confidence)


@functools.lru_cache(maxsize=256)
def _find_bound(
    estimator: OneRun, pairs: Pairs, counts: tuple[tuple[int, ...], tuple[int, ...]], coins: int, significance: float
) -> tuple[float, int]:
    """`_search`, kept because perfect guesses are as many for all numbers of members."""
    guesses, correct = map(np.array, counts)
    if estimator.calibration == "joint":
        walk = one_run_all_counts.Walk(guesses=guesses, correct=correct, coins=coins, delta=0.0)
        epsilon = one_run_all_counts.bound_along(walk, pairs, significance)
        return epsilon, walk.most_surprising(pairs(epsilon)[0]) if epsilon > 0 else -1
    return one_run_guesses.bound_along(pairs, guesses, correct, coins=coins, significance=significance)


@functools.lru_cache(maxsize=256)
def _ceiling(estimator: OneRun, members: int, nonmembers: int, pairs: Pairs, confidence: float) -> float:
    """Return what scores prove that are 1 for each member and 0 for each nonmember."""
    included = np.arange(members + nonmembers) < members
    guesses, correct = estimator._count(included.astype(np.float64), included)
    return estimator._search(pairs, guesses, correct, len(included), 1 - confidence)[0]


PLUGIN = OneRun
