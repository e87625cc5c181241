"""One run, any mechanism: count right guesses among the most confident ones."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from audit.core import checks
from audit.core.bounds import LowerBound
from audit.core.errors import ConfigError
from audit.core.game import Assumption
from audit.core.records import Scores
from audit.core.seeds import Seed
from audit.stats import one_run, ranks
from audit.stats.arrays import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """Guesses the highest scores as members and the lowest as nonmembers, for guess counts registered beforehand.

    Attributes:
        guess_fractions: shares of the coins that are guessed, half from either end; the error rate is split over them.

    Guarantee: `epsilon` exceeds the true epsilon with probability at most `1 - confidence` when memberships are independent
        fair coins, for any dependence between scores; scores of R runs with m coins each count as one run with R m coins,
        since the composed mechanism is (epsilon, delta)-DP in each coin (docs/statistics.md).
    References:
        Steinke, Nasr and Jagielski 2023, arXiv 2305.08846.
    """

    guess_fractions: tuple[float, ...] = (0.03, 0.12, 0.4, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "guess_fractions", tuple(self.guess_fractions))
        if not self.guess_fractions or not all(0 < share <= 1 for share in self.guess_fractions):
            raise ConfigError(f"guess_fractions is {self.guess_fractions}; expected shares in (0, 1], at least one")

    @property
    def assumes(self) -> frozenset[Assumption]:
        """Independent fair coins."""
        return frozenset({Assumption.INDEPENDENT_COINS})

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The largest epsilon that the guesses refute.

        Raises:
            DataError: one side is empty.
        """
        coins, tie_seed = len(scores.values), seed.child("ties")
        guesses, correct = self._counted(scores, delta, confidence, tie_seed)
        epsilon, at = one_run.grid_bound(guesses, correct, coins=coins, delta=delta, significance=1 - confidence)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="one_run",
            comparisons=len(guesses),
            ceiling=max(epsilon, _ceiling(coins, self.guess_fractions, delta, confidence)),
            assumes=(Assumption.INDEPENDENT_COINS,),
            selected=f"{correct[at]} of {guesses[at]} guesses right" if at >= 0 else "",
            seed=tie_seed.integer(),
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """Whether one of the registered counts refutes (epsilon, delta)-DP."""
        guesses, correct = self._counted(scores, delta, confidence, seed.child("ties"))
        return one_run.refutes(
            guesses, correct, coins=len(scores.values), epsilon=epsilon, delta=delta, significance=1 - confidence
        )

    def _counted(self, scores: Scores, delta: float, confidence: float, tie_seed: Seed) -> tuple[Counts, Counts]:
        """Numbers of guesses, and of right ones among them."""
        checks.both_sides(scores.included, "one_run")
        checks.open_probability(confidence, "confidence")
        checks.probability(delta, "delta")
        ranked = ranks.by_rank(scores.values, scores.included, tie_seed.numpy())
        guesses = one_run.guess_counts(len(scores.values), self.guess_fractions)
        return guesses, one_run.correct_guesses(ranked, guesses)


@functools.lru_cache(maxsize=256)
def _ceiling(coins: int, fractions: tuple[float, ...], delta: float, confidence: float) -> float:
    guesses = one_run.guess_counts(coins, fractions)
    return one_run.grid_bound(guesses, guesses, coins=coins, delta=delta, significance=1 - confidence)[0]


PLUGIN = OneRun
