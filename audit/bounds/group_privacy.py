"""Canaries in several copies: what their scores prove of a single record, by group privacy.

A run with k copies of a canary and a run without any differ in k records. Scores therefore bound the privacy of a
group of k, and only its conversion speaks of the claim for one record.
"""

from __future__ import annotations

import math
from dataclasses import replace

from audit.bounds import claim_test
from audit.core.claims import Claim, LowerBound
from audit.core.protocols import Estimator
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import roots
from audit.stats.curves import tradeoff

RESOLUTION = 1e-3
LARGEST = 100.0  # epsilon of one record


def bound(estimator: Estimator, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
    """The estimator's bound on the epsilon of one record, from scores of `scores.game.copies` copies of each canary.

    Guarantee: the epsilon of one record is overstated with probability at most `1 - confidence`, under the estimator's
        assumptions. (epsilon, delta)-DP training gives k records together (k epsilon, delta sum of e^(i epsilon), i < k);
        an epsilon is refuted where the estimator refutes that pair, at the pair's own delta. All these tests read the same
        scores and are nested, so their search costs nothing. Inside the family "gdp", k records together are k mu-GDP.
    References:
        Vadhan 2017, "The complexity of differential privacy", lemma 2.2; Dong, Roth and Su 2019, arXiv 1905.02383.

    Raises:
        UnsupportedMechanism: the estimator's family is not closed under groups ("dp_sgd": each copy is sampled on its own).
    """
    copies = scores.game.copies

    def at(pair_delta: float) -> LowerBound:
        return estimator.lower_bound(scores, delta=pair_delta, confidence=confidence, seed=seed)

    plain = at(delta)
    if plain.family == "gdp" and plain.parameter is not None:
        return _of_gdp(plain, copies, delta)

    def refuted(epsilon: float) -> bool:
        return claim_test.refutes(estimator, scores, epsilon=epsilon, delta=delta, confidence=confidence, seed=seed)

    def reached(epsilon: float) -> bool:
        together, spent = claim_test.of_group(None, epsilon, delta, copies)
        return spent < 1 and at(spent).ceiling > together

    epsilon, ceiling = (roots.last_rejected(one, largest=LARGEST, resolution=RESOLUTION) for one in (refuted, reached))
    return replace(plain, epsilon=epsilon, ceiling=max(epsilon, ceiling), selected=_said(plain, copies))


def claim(one: Claim, copies: int) -> Claim:
    """What a claim for one record allows a group of `copies`."""
    epsilon, delta = claim_test.of_group(None, one.epsilon, one.delta, copies)
    return replace(one, epsilon=epsilon, delta=delta, unit=f"group of {copies}", family=None)


def _of_gdp(plain: LowerBound, copies: int, delta: float) -> LowerBound:
    mu = (plain.parameter or 0.0) / copies
    top = math.inf if math.isinf(plain.ceiling) else tradeoff.mu_of_gdp(plain.ceiling, delta) / copies
    epsilon = tradeoff.epsilon_of_gdp(mu, delta)
    ceiling = max(epsilon, tradeoff.epsilon_of_gdp(top, delta))
    return replace(plain, epsilon=epsilon, parameter=mu, ceiling=ceiling, selected=_said(plain, copies))


def _said(plain: LowerBound, copies: int) -> str:
    found = plain.selected or "nothing"
    return f"{found}; {copies} copies, converted by group privacy"
