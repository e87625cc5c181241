"""Whether references tell each other's members: yes if scores follow coins, no for noise and for one system given again."""

from __future__ import annotations

import numpy as np
import pytest

from audit.stats.scoring.column_comparison import know_members


@pytest.mark.parametrize(("strength", "spread", "rate"), [(1.0, 1.0, (40, 40)), (0.0, 1.0, (0, 1)), (0.0, 0.0, (0, 0))])
def test_references_know_members_if_their_scores_follow_the_coins(
    strength: float, spread: float, rate: tuple[int, int]
) -> None:
    draw, known = np.random.default_rng(2), 0
    for _ in range(40):
        coins = draw.random((8, 60)) < 0.5
        scores = draw.normal(size=60) + spread * draw.normal(size=(8, 60)) + strength * coins
        known += know_members(scores[..., None], coins)
    assert rate[0] <= known <= rate[1]
