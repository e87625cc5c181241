"""The default for independent trials: an exact rank test that integrates the false positive rate out."""

import functools
from dataclasses import dataclass

import numpy as np

from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import rank_exact, ranks
from audit.stats.curves import tradeoff, tradeoff_curves

FAMILIES = ("any", "gdp")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExact:
    """Counts members above the k-th highest nonmember, and nonmembers below the k-th lowest member, for ranks fixed in advance.

    Attributes:
        family: "any" bounds epsilon of (epsilon, delta)-DP for any mechanism; "gdp" bounds mu of mu-GDP and states its
            epsilon, which holds inside that family only.
        ratio: between neighbouring ranks of the family.

    Guarantee: with "any", `epsilon` exceeds the true epsilon with probability at most `1 - confidence`, for trials
        independent and identically distributed given membership (docs/theory/independent-trials.md, "RankExact"); with "gdp",
        `parameter` exceeds the true mu so rarely.
    """

    family: str = "any"
    ratio: float = 3.0

    def __post_init__(self) -> None:
        checks.choice(self.family, "family", FAMILIES)
        if not 1 < self.ratio < float("inf"):
            raise ConfigError(f"ratio is {self.ratio}; expected a number above 1")

    @property
    def assumes(self) -> frozenset[Assumption]:
        """Independent, identically distributed trials."""
        return frozenset({Assumption.INDEPENDENT_TRIALS})

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The largest epsilon that one of the tests refutes.

        Raises:
            DataError: one side is empty.
            ConfigError: delta is 0 with the family "gdp", in which every epsilon is then infinite.
        """
        ranking = self._ranking(scores, delta, confidence)
        tests = rank_exact.precedence_tests(ranking, self.ratio)
        parameter, test = rank_exact.bound(tests, _family(self.family, delta), significance=1 - confidence)
        members = int(ranking.sum())
        top = _ceiling(self, members, len(ranking) - members, delta, confidence)
        gdp = self.family == "gdp"
        epsilon = tradeoff.gdp_epsilon(parameter, delta) if gdp else parameter
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="rank_exact",
            comparisons=len(tests),
            ceiling=max(epsilon, tradeoff.gdp_epsilon(top, delta) if gdp else top),
            assumes=(Assumption.INDEPENDENT_TRIALS,),
            family="gdp" if gdp else None,
            parameter=parameter if gdp else None,
            selected=test.describe() if test else "",
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if one of the tests refutes `epsilon` at `delta` (inside the family "gdp": the mu that has it)."""
        ranking = self._ranking(scores, delta, confidence)
        at = tradeoff.gdp_mu(epsilon, delta) if self.family == "gdp" else epsilon
        tests = rank_exact.precedence_tests(ranking, self.ratio)
        return rank_exact.refutes(tests, _family(self.family, delta)(at), significance=1 - confidence)

    def _ranking(self, scores: Scores, delta: float, confidence: float) -> ranks.Memberships:
        checks.both_sides(scores.included, "rank_exact")
        checks.open_probability(confidence, "confidence")
        (checks.probability if self.family == "any" else checks.open_probability)(delta, "delta of rank_exact")
        return ranks.by_rank(scores.values, scores.included)


def _family(name: str, delta: float) -> tradeoff_curves.Family:
    return tradeoff_curves.gdp if name == "gdp" else functools.partial(tradeoff_curves.epsilon_delta, delta=delta)


@functools.lru_cache(maxsize=256)
def _ceiling(estimator: RankExact, members: int, nonmembers: int, delta: float, confidence: float) -> float:
    perfect = np.arange(members + nonmembers) < members
    tests = rank_exact.precedence_tests(perfect, estimator.ratio)
    return rank_exact.bound(tests, _family(estimator.family, delta), significance=1 - confidence)[0]


PLUGIN = RankExact
