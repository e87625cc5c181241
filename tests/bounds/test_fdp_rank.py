"""What `fdp_rank` says if the scores fit no member of its family."""

from __future__ import annotations

import numpy as np

from audit.bounds.estimators.fdp_rank import FdpRank
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.events import dp_sgd
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.core.views import Scores


def scores(values: np.ndarray, included: np.ndarray) -> Scores:
    game = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.ALL_STEPS,
        inclusion=Inclusion.COINS,
        canaries=len(values),
        runs=1,
        references=0,
        independent_noise=True,
    )
    mechanism = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.1, steps=1)
    return Scores(values=values, included=included, game=game, mechanism=mechanism)


def test_scores_outside_the_family_are_named_so() -> None:
    """A member that is sampled with probability 0.1 cannot show in every run, whatever the noise."""
    included = np.arange(600) % 2 == 0
    result = FdpRank(statistic="rank").lower_bound(scores(included + 0.0, included), delta=1e-5, confidence=0.95, seed=Seed(1))
    assert "fit no member of the family" in result.selected and result.epsilon == result.ceiling == np.inf
    assert result.parameter is None
    coins = np.random.default_rng(3).random(600)
    quiet = FdpRank(statistic="rank").lower_bound(scores(coins, included), delta=1e-5, confidence=0.95, seed=Seed(1))
    assert "fit no member" not in quiet.selected
