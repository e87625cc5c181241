"""Draws that are moved apart count as plain ones do, and pay for their luck."""

import math

import numpy as np
import pytest

from audit.stats.bounds import critical_ranks, least_favourable, rank_sums
from audit.stats.bounds.critical_ranks import LUCK


def rows(members: int, nonmembers: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws and their weights, moved in two parts of which the second begins with a moved row."""
    draws = np.random.default_rng(seed).standard_normal((count, members + nonmembers), dtype=np.float32)
    weights = [critical_ranks.move_apart(part, members, first) for part, first in ((draws[:7], 0), (draws[7:], 7))]
    return draws, np.concatenate(weights)


def test_every_second_row_is_moved_and_weights_are_ratios_of_densities() -> None:
    moved, weights = rows(3, 5, 20, 1)
    plain = np.random.default_rng(1).standard_normal((20, 8), dtype=np.float32)
    error = math.sqrt(1 / 3 + 1 / 5)
    lead = moved[:, :3].mean(axis=1, dtype=float) - moved[:, 3:].mean(axis=1, dtype=float)
    assert (moved[::2] == plain[::2]).all() and (moved[1::2] != plain[1::2]).all()
    before = plain[:, :3].mean(axis=1, dtype=float) - plain[:, 3:].mean(axis=1, dtype=float)
    assert lead[1::2] - before[1::2] == pytest.approx(np.full(10, critical_ranks.APART * error), abs=1e-6)
    shift = np.r_[np.full(3, 1 / 3), np.full(5, -1 / 5)] * critical_ranks.APART / error
    x = moved.astype(float)
    densities = np.exp(-(x**2).sum(axis=1) / 2), np.exp(-((x - shift) ** 2).sum(axis=1) / 2)
    assert weights == pytest.approx(2 * densities[0] / (densities[0] + densities[1]), rel=1e-5)


@pytest.mark.parametrize(("members", "nonmembers"), [(12, 12), (30, 9)])
def test_the_weighted_share_is_the_exact_chance(members: int, nonmembers: int) -> None:
    """Of few wins and of many; plain draws of this number would be off by 6 % in the rarest row."""
    draws, weights = rows(members, nonmembers, 60_000, 2)
    scores = least_favourable.auc_scores(members + nonmembers)
    won = least_favourable.simulated_sums(draws[:, :members], draws[:, members:], scores) - int(scores[:members].sum())
    for level in (0.3, 0.05, 0.005):
        wins = rank_sums.critical_wins(members, nonmembers, level)
        exact = rank_sums.tail(members, nonmembers, wins)
        counted = weights * (won >= wins)
        assert abs(counted.mean() - exact) < 4.5 * counted.std() / math.sqrt(len(draws))
        assert counted.std() < 1.5 * math.sqrt(exact * (1 - exact))
    assert counted.std() < 0.4 * math.sqrt(exact)


def test_the_budget_is_a_bet_at_odds_of_one_in_ten_thousand() -> None:
    weights = np.array([0.0, 0.5, 2.0])
    costs, budgets = critical_ranks.costs_of(weights, ((2, 0.05), (3, 0.01)))
    stake = critical_ranks.STAKE
    for place, level in enumerate((0.05, 0.01)):
        fortune = [math.log1p(stake * (level - weight)) for weight in weights]
        expected = [math.log1p(stake * level) - item for item in fortune]
        assert costs[place] / critical_ranks.WHOLE == pytest.approx(
            [*expected[:2], 0.0 if place == 0 else expected[2]], abs=1e-9
        )
    assert budgets[1] / critical_ranks.WHOLE == pytest.approx(3 * math.log1p(stake * 0.01) + math.log(LUCK), abs=1e-9)
    assert budgets[1] < 0  # three draws refute nothing


def test_a_finer_level_never_costs_less_and_never_may_spend_more() -> None:
    weights = np.linspace(0, 2, 50)
    costs, budgets = critical_ranks.costs_of(weights, tuple((50, level) for level in (0.1, 0.05, 0.049, 0.001)))
    assert (np.diff(costs, axis=0) >= 0).all() and (np.diff(costs, axis=1) >= 0).all()
    assert (np.diff(budgets) < 0).all()
