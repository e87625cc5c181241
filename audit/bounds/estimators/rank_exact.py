"""The default for independent trials: an exact rank test that integrates the false positive rate out."""

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.bounds.estimators import _shared
from audit.bounds.estimators._shared import TRIALS, Family
from audit.core import checks
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import rank_exact, ranks

FAMILIES = ("any", "gdp")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExact:
    """Counts members above the k-th highest nonmember, and nonmembers below the k-th lowest member, for ranks fixed in advance.

    Attributes:
        family: "any" bounds epsilon of (epsilon, delta)-DP for any mechanism; "gdp" bounds mu of mu-GDP and states its
            epsilon, which holds inside that family only.

    Guarantee: with "any", `epsilon` exceeds the true epsilon with probability at most `1 - confidence`, for trials
        independent and identically distributed given membership (docs/theory/independent-trials.md, "RankExact"); with "gdp",
        `parameter` exceeds the true mu so rarely.
    """

    assumes: ClassVar[frozenset[Assumption]] = TRIALS

    family: str = "any"
    ratio: float = 3.0

    def __post_init__(self) -> None:
        checks.choice(self.family, "family", FAMILIES)
        _shared.demand_ratio(self.ratio)

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The largest epsilon that one of the tests refutes.

        Raises:
            DataError: one side is empty.
            ConfigError: delta is 0 with the family "gdp", in which every epsilon is then infinite.
        """
        ranking, family = self._ranking(scores, delta, confidence), Family(name=self.family, delta=delta)
        tests = rank_exact.precedence_tests(ranking, self.ratio)
        parameter, test = rank_exact.bound(tests, family, significance=1 - confidence)
        members, epsilon = int(ranking.sum()), family.epsilon(parameter)
        top = _ceiling(family, self.ratio, members, len(ranking) - members, confidence)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="rank_exact",
            comparisons=len(tests),
            ceiling=max(epsilon, family.epsilon(top)),
            assumes=tuple(self.assumes),
            family=family.family,
            parameter=family.parameter(parameter),
            selected=test.describe() if test else "",
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if one of the tests refutes `epsilon` at `delta` (inside the family "gdp": the mu that has it)."""
        tests = rank_exact.precedence_tests(self._ranking(scores, delta, confidence), self.ratio)
        family = Family(name=self.family, delta=delta)
        return rank_exact.refutes(tests, family(family.with_epsilon(epsilon)), significance=1 - confidence)

    def _ranking(self, scores: Scores, delta: float, confidence: float) -> ranks.Memberships:
        return _shared.rank(scores, "rank_exact", delta, confidence, inside=self.family != "any")


@functools.lru_cache(maxsize=256)
def _ceiling(family: Family, ratio: float, members: int, nonmembers: int, confidence: float) -> float:
    tests = rank_exact.precedence_tests(np.arange(members + nonmembers) < members, ratio)
    return rank_exact.bound(tests, family, significance=1 - confidence)[0]


PLUGIN = RankExact
