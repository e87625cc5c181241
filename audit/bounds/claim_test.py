"""One claim put to the test: whether the bound would be above it, without searching for the bound.

Simulated audits ask that of thousands of scores. Canaries in copies are judged by group privacy here as they are in
`audit.bounds.group_privacy`.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.bounds import group_privacy
from audit.core import checks
from audit.core.claims import DeltaBound
from audit.core.data import Array
from audit.core.errors import UnsupportedMechanism
from audit.core.events import Event
from audit.core.game import Game
from audit.core.lower_bounds import LowerBound
from audit.core.protocols import Estimator, ManyRefuter, PathEstimator, Refuter
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.event_curves import find_curves
from audit.stats.bounds import roots
from audit.stats.curves import tradeoff

LEAST_DELTA = 1e-15  # deltas below are not distinguished from 0
FAR = 1e300  # a score beyond every threshold
PROBE = 20  # made-up scores that an estimator is asked about for the family that it speaks of


def refutes(estimator: Estimator, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
    """True if the estimator's bound on the epsilon of one record is above `epsilon`, up to the precision of its search;
    `UnsupportedMechanism` for canaries in copies and a family that is not closed under groups.

    Guarantee: true for the true epsilon with probability at most `1 - confidence`, under the estimator's assumptions.
    """
    if math.isinf(epsilon):
        return False
    if scores.game.copies > 1:
        family = find_family(estimator, scores.game, scores.mechanism, delta)
        if family is None and isinstance(estimator, PathEstimator):  # not monotone: the test is where its own search ends
            bound = group_privacy.bound(estimator, scores, delta=delta, confidence=confidence, seed=seed)
            return bound.epsilon > epsilon
        group_privacy.demand_nested(estimator, "judge canaries in copies")
        epsilon, delta = group_privacy.of_group(family, epsilon, delta, scores.game.copies)
        # at delta 1 the group is allowed everything
        if not delta < 1:
            return False
    if isinstance(estimator, Refuter):
        return estimator.refutes(scores, epsilon=epsilon, delta=delta, confidence=confidence, seed=seed)
    return estimator.lower_bound(scores, delta=delta, confidence=confidence, seed=seed).epsilon > epsilon


def refutes_tables(
    estimator: Estimator, tables: Sequence[Scores], *, epsilon: float, delta: float, confidence: float, seeds: Sequence[Seed]
) -> list[bool]:
    """`refutes` for each of many audits of one game."""
    question = {"epsilon": epsilon, "delta": delta, "confidence": confidence}
    if isinstance(estimator, ManyRefuter) and tables[0].game.copies == 1 and math.isfinite(epsilon):
        return estimator.refutes_tables(tables, **question)
    return [refutes(estimator, scores, **question, seed=seed) for scores, seed in zip(tables, seeds, strict=True)]


@functools.lru_cache(maxsize=256)
def find_family(estimator: Estimator, game: Game, mechanism: Event | None, delta: float) -> str | None:
    """The trade-off family inside which an estimator's bounds hold, or None."""
    return probe(estimator, game, mechanism, delta).family


def probe(estimator: Estimator, game: Game, mechanism: Event | None, delta: float, confidence: float = 0.5) -> LowerBound:
    """A bound on a few scores that show nothing: what kind of bound it is."""
    count = min(max(game.canaries * game.runs, 2), PROBE)
    if game.choices > 1:
        scores = secret_scores(game, np.zeros((count, game.choices)), np.zeros(count, dtype=int), mechanism)
    else:
        included = np.arange(count) % 2 == 0
        scores = Scores(values=np.arange(count) // 2 % 2 * 1.0, included=included, game=game, mechanism=mechanism)
    return estimator.lower_bound(scores, delta=delta, confidence=confidence, seed=Seed(0))


def secret_scores(game: Game, values: Array, drawn: Array, mechanism: Event | None = None) -> Scores:
    """Scores `(s, k)` of secrets with equally likely values, which took `drawn` `(s,)`."""
    included = drawn[:, None] == np.arange(game.choices)
    prior = np.full(values.size, 1 / game.choices)
    return Scores(values=values.ravel(), included=included.ravel(), game=game, mechanism=mechanism, prior=prior)


def delta_bound(estimator: Estimator, scores: Scores, *, epsilon: float, confidence: float, seed: Seed) -> DeltaBound:
    """The lower bound on delta at `epsilon`, beside what perfect scores would have proved.

    Guarantee, errors: those of `delta_refuted`.
    """
    kind = probe(estimator, scores.game, scores.mechanism, LEAST_DELTA)
    perfect = replace(scores, values=np.where(scores.included, FAR, -FAR))
    delta, ceiling = (
        delta_refuted(estimator, values, epsilon=epsilon, confidence=confidence, seed=seed) for values in (scores, perfect)
    )
    return DeltaBound(
        delta=delta,
        epsilon=epsilon,
        confidence=confidence,
        estimator=kind.estimator,
        ceiling=max(delta, ceiling),
        assumes=kind.assumes,
        game=scores.game,
        family=kind.family,
    )


def delta_refuted(estimator: Estimator, scores: Scores, *, epsilon: float, confidence: float, seed: Seed) -> float:
    """The largest delta such that the estimator refutes (epsilon, delta)-DP: its own tests, inverted in delta.

    Inside a family it is the delta at `epsilon` of the family's member that is refuted.

    Guarantee: exceeds the true delta at `epsilon` with probability at most `1 - confidence`, under the estimator's
        assumptions: every pair tried is refuted by a test at that level, and tests at one epsilon are nested in delta.

    Raises:
        UnsupportedMechanism: canaries in copies.
        ConfigError: the estimator's tests are not nested in delta.
    """
    checks.nonnegative(epsilon, "epsilon")
    group_privacy.demand_nested(estimator, "bound delta")
    if scores.game.copies > 1:
        raise UnsupportedMechanism("delta is not converted for canaries in copies; bound epsilon instead")
    family = find_family(estimator, scores.game, scores.mechanism, LEAST_DELTA)
    if family is not None:
        # only the family's parameter is read, which is the same at every delta
        bound = estimator.lower_bound(scores, delta=LEAST_DELTA, confidence=confidence, seed=seed)
        return _delta_inside(family, bound.parameter, scores.mechanism, epsilon)

    def is_refuted(log_delta: float) -> bool:
        delta = min(math.exp(log_delta), 1.0)
        return refutes(estimator, scores, epsilon=epsilon, delta=delta, confidence=confidence, seed=seed)

    lowest = math.log(LEAST_DELTA)
    if not is_refuted(lowest):
        return 0.0
    return math.exp(roots.last_rejected(is_refuted, start=lowest, stride=4.0, largest=0.0, resolution=1e-6))


def _delta_inside(family: str, parameter: float | None, mechanism: Event | None, epsilon: float) -> float:
    """Delta at `epsilon` of the member of a family with this parameter (mu, or the noise multiplier), from below."""
    if family == "gdp":
        return tradeoff.gdp_delta(parameter or 0.0, epsilon)
    curves = find_curves(mechanism)
    if curves is None or curves.family != family or parameter is None:
        raise UnsupportedMechanism(f"the delta of the family '{family}' is not known; bound epsilon instead")

    def above(log_delta: float) -> bool:
        return curves.epsilon(parameter, math.exp(log_delta)) > epsilon

    lowest = math.log(LEAST_DELTA)
    if not above(lowest):
        return 0.0
    # a delta of 1 has no epsilon: end just below
    return math.exp(roots.last_rejected(above, start=lowest, stride=4.0, largest=-1e-12, resolution=1e-4))
