"""How Gaussian the separation of members and nonmembers must be: a bound on mu of mu-GDP, not on epsilon alone."""

import functools
from dataclasses import dataclass
from typing import ClassVar

from audit.bounds.estimators import _shared
from audit.bounds.estimators._shared import TRIALS
from audit.core import checks, score_values
from audit.core.errors import ConfigError
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import gdp_area, least_favourable
from audit.stats.bounds.ranks import Memberships
from audit.stats.curves import tradeoff

STATISTICS = ("auto", "auc", "paired")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    """Refutes mu-GDP by the area under the ROC and states the epsilon of the largest mu refuted.

    Over the canaries of one run, if the game grants their independence, this is the valid form of a "Gaussian sum" bound: ranks
    are summed in place of the scores themselves (docs/theory/independent-trials.md).

    Attributes:
        statistic: "auc" (all pairs; exact if nothing leaks), "paired" (disjoint pairs of rows,
            Clopper-Pearson) or "auto" (the first if its simulation is affordable).

    Guarantee: `parameter` exceeds the least mu for which the mechanism is mu-GDP with probability at most `1 - confidence`,
        for trials independent and identically distributed given membership. `epsilon` inherits that only inside the family
        "gdp": a mechanism that is (epsilon, delta)-DP but not Gaussian-like can show a larger figure here.
    References: Dong, Roth and Su 2019, arXiv 1905.02383; Nasr et al. 2023, arXiv 2302.07956 (for auditing with GDP).
    """

    assumes: ClassVar[frozenset[Assumption]] = TRIALS

    statistic: str = "auto"

    def __post_init__(self) -> None:
        checks.choice(self.statistic, "statistic", STATISTICS)

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The epsilon at `delta` of the largest mu refuted.

        Raises:
            DataError: one side is empty.
            ConfigError: delta is 0, at which no Gaussian mechanism has a finite epsilon, or "auc" has too many scores.
        """
        ranking = _ranking(scores, delta, confidence)
        significance, members = 1 - confidence, int(ranking.sum())
        nonmembers = len(ranking) - members
        by_simulation = self._affords_simulation(members, nonmembers, significance)
        if by_simulation:
            mu = _bound(members, nonmembers, least_favourable.wins(ranking), significance)
        else:
            mu = least_favourable.auc_mu(_paired_floor(scores, significance))
        epsilon = tradeoff.gdp_epsilon(mu, delta)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="gaussian",
            comparisons=1,
            ceiling=max(epsilon, tradeoff.gdp_epsilon(_ceiling(members, nonmembers, by_simulation, significance), delta)),
            assumes=tuple(self.assumes),
            family="gdp",
            parameter=mu,
            selected="AUC over all pairs" if by_simulation else f"{min(members, nonmembers)} disjoint pairs",
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if the statistic refutes the mu-GDP that has `epsilon` at `delta`."""
        ranking = _ranking(scores, delta, confidence)
        significance, members = 1 - confidence, int(ranking.sum())
        by_simulation = self._affords_simulation(members, len(ranking) - members, significance)
        mu = tradeoff.gdp_mu(epsilon, delta)
        if not by_simulation:
            return _paired_floor(scores, significance) > tradeoff.gdp_auc(mu)
        critical = gdp_area.critical_wins(members, len(ranking) - members, mu, significance)
        return least_favourable.wins(ranking) >= critical

    def _affords_simulation(self, members: int, nonmembers: int, significance: float) -> bool:
        affordable = gdp_area.draws_for(members, nonmembers, significance) > 0
        if self.statistic == "auc" and not affordable:
            raise ConfigError(
                f"statistic 'auc' would need too many simulations for {members + nonmembers} scores at confidence "
                f"{1 - significance:.6g}; use 'auto' or 'paired'"
            )
        return affordable and self.statistic != "paired"


def _ranking(scores: Scores, delta: float, confidence: float) -> Memberships:
    return _shared.rank(scores, "gaussian", delta, confidence, text="delta of the gaussian estimator", inside=True)


def _paired_floor(scores: Scores, significance: float) -> float:
    """The lower limit on the AUC from pairs of rows; `DataError` if the rows of a side are sorted by score."""
    members = score_values.check_order(scores.members, "members", "gaussian by disjoint pairs")
    nonmembers = score_values.check_order(scores.nonmembers, "nonmembers", "gaussian by disjoint pairs")
    return least_favourable.paired_auc_lower(members, nonmembers, significance=significance)


_bound = functools.lru_cache(maxsize=1024)(gdp_area.bound)


@functools.lru_cache(maxsize=256)
def _ceiling(members: int, nonmembers: int, by_simulation: bool, significance: float) -> float:
    if by_simulation:
        return least_favourable.gdp_separation_ceiling(members, nonmembers, significance)
    return least_favourable.auc_mu(significance ** (1 / min(members, nonmembers)))


PLUGIN = Gaussian
