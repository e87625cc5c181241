"""Evidence that may be looked at at any time: bets against claims, pair after pair of independent trials."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from audit.core import checks
from audit.core.bounds import LowerBound
from audit.core.game import Assumption
from audit.core.records import Scores
from audit.core.seeds import Seed
from audit.stats import ranks, sequential


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """An e-process over pairs of a member and a nonmember in random order; the largest epsilon refuted at any time.

    For audits that stop as soon as something is proved use `audit.stats.sequential` pair by pair: the same guarantee
    holds under any stopping rule.

    Guarantee: `epsilon` exceeds the true epsilon with probability at most `1 - confidence`, at every time at once, for
        trials independent and identically distributed given membership.
    References:
        Ville 1939; Waudby-Smith and Ramdas 2024, arXiv 2010.09686.
    """

    @property
    def assumes(self) -> frozenset[Assumption]:
        """Independent, identically distributed trials."""
        return frozenset({Assumption.INDEPENDENT_TRIALS})

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The largest epsilon of a fixed grid that was refuted.

        Raises:
            DataError: one side is empty.
        """
        checks.both_sides(scores.included, "sequential")
        checks.probability(delta, "delta")
        significance = 1 - checks.open_probability(confidence, "confidence")
        ranked = ranks.by_rank(scores.values, scores.included, seed.child("ties").numpy())
        order = seed.child("order").numpy()
        members = order.permutation(-np.flatnonzero(ranked).astype(np.float64))
        nonmembers = order.permutation(-np.flatnonzero(~ranked).astype(np.float64))
        pairs = min(len(members), len(nonmembers))
        wealth, proved = sequential.start(delta), 0
        for group in sequential.groups(pairs):
            before = wealth.best[0]
            wealth = sequential.update(wealth, members[group], nonmembers[group])
            if proved == 0 and before < -np.log(significance) <= wealth.best[0]:
                proved = wealth.pairs
        epsilon = sequential.epsilon_refuted(wealth, significance)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="sequential",
            comparisons=1,
            ceiling=max(epsilon, _ceiling(pairs, delta, significance)),
            assumes=(Assumption.INDEPENDENT_TRIALS,),
            selected=f"leakage proved after {proved} of {pairs} pairs" if epsilon > 0 else "",
            seed=seed.integer(),
        )


@functools.lru_cache(maxsize=256)
def _ceiling(pairs: int, delta: float, significance: float) -> float:
    return sequential.perfect(pairs, delta, significance)


PLUGIN = Sequential
