"""The figure by which attacks are compared gives tied scores what a random order of them would get, no more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from audit.stats.arrays import Array
from audit.stats.scoring.strength import partial_auc


def mean_over_orders(members: Array, nonmembers: Array, fpr: float) -> float:
    """Mean TPR over the first false positives, averaged over every order of all records that sorts them by score."""
    scores = np.concatenate([members, nonmembers])
    sides = np.arange(len(scores)) < len(members)
    count = max(1, int(fpr * len(nonmembers)))
    figures = []
    for order in itertools.permutations(range(len(scores))):
        if any(scores[first] < scores[right] for first, right in itertools.pairwise(order)):
            continue
        ranked = sides[list(order)]
        false_positives = np.flatnonzero(~ranked)[:count]
        figures.append(np.mean([ranked[:place].sum() / len(members) for place in false_positives]))
    return float(np.mean(figures))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_tied_scores_get_the_mean_over_all_their_orders(seed: int) -> None:
    stream = np.random.default_rng(seed)
    members, nonmembers = (stream.integers(0, 3, size).astype(float) for size in (3, 4))
    for fpr in (0.1, 0.5, 0.75, 1.0):
        assert partial_auc(members, nonmembers, fpr) == pytest.approx(mean_over_orders(members, nonmembers, fpr))


def test_a_constant_score_gets_what_scores_that_know_nothing_get() -> None:
    stream = np.random.default_rng(0)
    blind = [partial_auc(stream.random(200), stream.random(200), 0.05) for _ in range(2000)]
    constant = partial_auc(np.zeros(200), np.zeros(200), 0.05)
    assert constant == pytest.approx(11 / 402)
    assert abs(constant - np.mean(blind)) < 4 * np.std(blind) / len(blind) ** 0.5
