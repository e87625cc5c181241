"""Canaries in several copies: what their scores prove of a single record, by group privacy.

A run with k copies of a canary and a run without any differ in k records. Scores therefore bound the privacy of a
group of k, and only its conversion speaks of the claim for one record.
"""

import functools
import math
from dataclasses import replace

from audit.core.claims import Claim
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.game import Game
from audit.core.lower_bounds import LowerBound
from audit.core.protocols import Estimator, PathEstimator
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import roots
from audit.stats.curves import tradeoff

RESOLUTION = 1e-3
LARGEST = 100.0  # epsilon of one record


def bound(estimator: Estimator, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
    """Lower bound on the epsilon of one record, from scores of `scores.game.copies` copies of each canary.

    Guarantee: the epsilon of one record is overstated with probability at most `1 - confidence`, under the estimator's
        assumptions. (epsilon, delta)-DP training gives k records together (k epsilon, delta sum of e^(i epsilon), i < k), a
        path of ever weaker pairs. An estimator with tests that are not monotone bounds that path with its own search; otherwise
        an epsilon is refuted if the bound at the pair's delta is above the pair's epsilon, which is monotone since bounds
        do not rise with delta. Inside the family "gdp", k records together are k mu-GDP.
    References: Vadhan 2017, "The complexity of differential privacy", lemma 2.2; Dong, Roth and Su 2019, arXiv 1905.02383.

    Raises:
        ConfigError: the estimator's bounds at several deltas are not ordered.
        UnsupportedMechanism: the estimator's family is not closed under groups ("dp_sgd": each copy is sampled on its own).
    """
    demand_nested(estimator, "judge canaries in copies")
    copies = scores.game.copies
    plain = estimator.lower_bound(scores, delta=delta, confidence=confidence, seed=seed)
    if plain.family == "gdp" and plain.parameter is not None:
        return _group_gdp(plain, scores.game, delta)
    if plain.family is not None:
        raise unsupported_copies(plain.family, copies)
    pairs = tradeoff.GroupPairs(delta=delta, copies=copies)
    if isinstance(estimator, PathEstimator):
        epsilon, ceiling = estimator.bound_along(scores, pairs, confidence=confidence, seed=seed)
    else:
        epsilon, ceiling = _nest(estimator, scores, pairs, confidence, seed)
    return replace(plain, epsilon=epsilon, ceiling=max(epsilon, ceiling), selected=_description(plain, scores.game))


def of_group(family: str | None, epsilon: float, delta: float, copies: int) -> tuple[float, float]:
    """The (epsilon, delta) that `copies` records have together when each has this one; `UnsupportedMechanism` if the family is
    not closed under groups ("dp_sgd": each copy is sampled on its own).

    References: Vadhan 2017, "The complexity of differential privacy", lemma 2.2; Dong, Roth and Su 2019, arXiv 1905.02383.

    >>> of_group(None, 1.0, 0.0, 3)
    (3.0, 0.0)
    """
    if family is None:
        return tradeoff.group_privacy(epsilon, delta, copies)
    if family == "gdp":
        return tradeoff.gdp_epsilon(copies * tradeoff.gdp_mu(epsilon, delta), delta), delta
    raise unsupported_copies(family, copies)


def claim(claim: Claim, copies: int) -> Claim:
    """Return what a claim for one record allows a group of `copies`, as a bare (epsilon, delta): its family is dropped."""
    epsilon, delta = of_group(None, claim.epsilon, claim.delta, copies)
    return replace(claim, epsilon=epsilon, delta=delta, unit=f"group of {copies}", family=None)


def demand_nested(estimator: Estimator, purpose: str) -> None:
    """Raise `ConfigError` for an estimator that declares `nested_in_delta = False`: less delta may refute less."""
    if not getattr(estimator, "nested_in_delta", True):
        raise ConfigError(
            f"the tests of {estimator} are chosen for one delta, so it cannot {purpose}; use other settings of it"
        )


def unsupported_copies(family: str, copies: int) -> UnsupportedMechanism:
    """The error for a family that groups leave."""
    return UnsupportedMechanism(
        f"bounds inside the family '{family}' do not speak of {copies} copies of a canary, which leave it; "
        "use an estimator for any mechanism, or canaries without copies"
    )


def _nest(
    estimator: Estimator, scores: Scores, pairs: tradeoff.GroupPairs, confidence: float, seed: Seed
) -> tuple[float, float]:
    """The epsilon of one record if the bound at each pair's delta meets the pair, and the same of the ceiling."""

    # both searches start on the same pairs, and each bound may be simulated
    @functools.lru_cache(maxsize=64)
    def at(delta: float) -> LowerBound:
        return estimator.lower_bound(scores, delta=delta, confidence=confidence, seed=seed)

    def bound_exceeds(epsilon: float) -> bool:
        together, group_delta = pairs(epsilon)
        return group_delta < 1 and at(group_delta).epsilon > together

    def ceiling_exceeds(epsilon: float) -> bool:
        together, group_delta = pairs(epsilon)
        return group_delta < 1 and at(group_delta).ceiling > together

    epsilon, ceiling = (
        roots.last_rejected(test, largest=LARGEST, resolution=RESOLUTION) for test in (bound_exceeds, ceiling_exceeds)
    )
    return epsilon, ceiling


def _group_gdp(plain: LowerBound, game: Game, delta: float) -> LowerBound:
    copies = game.copies
    mu = (plain.parameter or 0.0) / copies
    top = math.inf if math.isinf(plain.ceiling) else tradeoff.gdp_mu(plain.ceiling, delta) / copies
    epsilon = tradeoff.gdp_epsilon(mu, delta)
    ceiling = max(epsilon, tradeoff.gdp_epsilon(top, delta))
    return replace(plain, epsilon=epsilon, parameter=mu, ceiling=ceiling, selected=_description(plain, game))


def _description(plain: LowerBound, game: Game) -> str:
    return f"{plain.selected or 'nothing'}; {game.copies} {game.grouped}, converted by group privacy"
