"""The negative control: what the same statistics prove when coins are drawn anew and mean nothing."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.bounds import claim_test
from audit.core.canaries import Secrets
from audit.core.claims import NegativeControl
from audit.core.data import Array
from audit.core.game import Inclusion
from audit.core.protocols import Estimator
from audit.core.seeds import Seed
from audit.core.views import Scores

REPETITIONS = 20
SIGNIFICANCE = 1e-3


def negative_control(
    scores: Scores, estimators: Sequence[Estimator], *, delta: float, confidence: float, seed: Seed
) -> NegativeControl:
    """Return how often the same statistics "prove" something when the coins are drawn anew and mean nothing.

    Guarantee: a sound pipeline fails this control with probability at most `SIGNIFICANCE`: the
        number of false alarms among the repetitions is at most binomial with the union of the estimators' error rates.
    """
    alarms = 0
    for repetition in range(REPETITIONS):
        stream = seed.child("control", repetition)
        permutation = replace(scores, included=fresh_coins(scores, stream))
        alarms += any(
            claim_test.refutes(
                estimator, permutation, epsilon=0.0, delta=delta, confidence=confidence, seed=stream.child("estimator", index)
            )
            for index, estimator in enumerate(estimators)
        )
    return make_control(alarms, len(estimators) * (1 - confidence))


def fresh_coins(scores: Scores, seed: Seed) -> Array:
    """Memberships `(n,)` drawn anew as the game draws them; those of the game shuffled if it drew none."""
    if scores.game.choices > 1:
        _, _, prior = scores.secrets
        return Secrets(kind=scores.game.secret, prior=prior).draw(seed.numpy().random(len(prior)))
    coins = seed.numpy().random(len(scores.values)) < scores.game.inclusion_probability
    # coins that leave one side empty could be put to no test; a permutation keeps both
    if scores.game.inclusion is not Inclusion.COINS or coins.all() or not coins.any():
        return np.asarray(seed.numpy().permutation(scores.included))
    return np.asarray(coins)


def make_control(alarms: int, rate: float) -> NegativeControl:
    """The control that found so many false alarms in `REPETITIONS`, each of which may have one at this rate."""
    alarm_limit = _allowed_alarms(REPETITIONS, min(1.0, rate))
    return NegativeControl(repetitions=REPETITIONS, false_alarms=alarms, allowed=alarm_limit, passed=alarms <= alarm_limit)


def _allowed_alarms(repetitions: int, rate: float) -> int:
    """The least count with a binomial tail beyond it of at most `SIGNIFICANCE`."""
    cumulative = 0.0
    for count in range(repetitions + 1):
        cumulative += math.comb(repetitions, count) * rate**count * (1 - rate) ** (repetitions - count)
        if cumulative >= 1 - SIGNIFICANCE:
            return count
    return repetitions
