"""A learned score steadied by a formula: ranks under both, weighed by how many pairs the score was fitted on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import rankdata

Array = NDArray[Any]

_EQUAL_AT = 600  # pairs of a reference and a record at which both count alike (docs/evidence/results.md)
ALONE_FROM = 60_000  # pairs at which the formula's weight falls to 1 %: from there on the learned score ranks alone


def mixed(learned: Array, formula: Array, pairs: int) -> Array:
    """Weighted sum of the log odds of ranks under both scores, `(m,)` each; equal scores share their rank.

    The weight of the formula is `600 / (600 + pairs)`: fitted on few (reference, record) pairs a score errs, and apart from a
    formula, so that both together inform more than either.

    >>> mixed(np.array([5.0, 1.0, 3.0]), np.array([0.1, 0.3, 0.2]), 600).round(3).tolist()
    [0.0, 0.0, 0.0]
    """
    weight = _EQUAL_AT / (_EQUAL_AT + pairs) if pairs < ALONE_FROM else 0.0
    return np.asarray((1 - weight) * rank_log_odds(learned) + weight * rank_log_odds(formula))


def rank_log_odds(scores: Array) -> Array:
    """Log odds of each score's rank among them, `(m,)`; equal scores share their rank.

    >>> rank_log_odds(np.array([5.0, 1.0, 3.0])).round(3).tolist()
    [1.099, -1.099, 0.0]
    """
    return np.asarray(logit(rankdata(scores) / (len(scores) + 1)))
