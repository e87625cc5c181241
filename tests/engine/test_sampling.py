"""Batches follow the Poisson law, are reproducible, and do not depend on the neighbours or the coins."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from audit.core.seeds import Seed
from audit.engine.random.sampling import EnsembleSampler, Law, PoissonStream


def sizes_and_hits(law: Law, blocks: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    stream = PoissonStream(law, Seed(seed))
    sizes, hits = [], np.zeros(law.population, dtype=np.int64)
    for _ in range(blocks):
        step, record = stream.block()
        assert (np.diff(step * law.population + record) > 0).all()  # each record at most once a step
        sizes.append(np.bincount(step, minlength=law.block_steps))
        hits += np.bincount(record, minlength=law.population)
    return np.concatenate(sizes), hits


@pytest.mark.parametrize(("population", "rate"), [(40, 0.5), (1000, 0.01), (200, 0.9), (30, 0.05)])
def test_batch_sizes_are_binomial_and_records_equally_likely(population: int, rate: float) -> None:
    law = Law(population=population, rate=rate)
    sizes, hits = sizes_and_hits(law, 24, seed=5)
    steps = len(sizes)
    edges = np.unique(stats.binom.ppf(np.linspace(0, 1, 13)[1:-1], population, rate))
    probabilities = np.diff(np.concatenate([[0.0], stats.binom.cdf(edges, population, rate), [1.0]]))
    observed = np.bincount(np.searchsorted(edges, sizes), minlength=len(probabilities))
    retained = probabilities * steps > 4
    statistic = ((observed - steps * probabilities)[retained] ** 2 / (steps * probabilities)[retained]).sum()
    assert stats.chi2.sf(statistic, retained.sum() - 1) > 1e-4
    spread = ((hits - steps * rate) ** 2 / (steps * rate * (1 - rate))).sum()
    assert 1e-4 < stats.chi2.sf(spread, population) < 1 - 1e-4


def test_pairs_of_records_are_independent() -> None:
    law = Law(population=12, rate=0.3)
    stream = PoissonStream(law, Seed(1))
    rows = []
    for _ in range(20):
        step, record = stream.block()
        table = np.zeros((law.block_steps, 12))
        table[step, record] = 1
        rows.append(table)
    drawn = np.concatenate(rows)
    correlation = np.corrcoef(drawn.T)[np.triu_indices(12, 1)]
    assert (correlation**2).sum() * len(drawn) < stats.chi2.isf(1e-4, len(correlation))
    lag = np.corrcoef(drawn[1:].ravel(), drawn[:-1].ravel())[0, 1]
    assert abs(lag) * np.sqrt(drawn.size) < 4


@pytest.mark.parametrize("rate", [0.0, 1.0, 1e-9])
def test_extreme_rates(rate: float) -> None:
    law = Law(population=50, rate=rate)
    sizes, _ = sizes_and_hits(law, 3, seed=0)
    assert (sizes == (50 if rate == 1.0 else 0)).all()


def test_a_model_does_not_see_its_neighbours_or_its_coins() -> None:
    law = Law(population=120, rate=0.2)
    seeds = tuple(Seed(3).child("model", index) for index in range(4))
    coins = np.random.default_rng(0).random((4, 20)) < 0.5
    together = EnsembleSampler(law, seeds, coins, as_gradients=False).block()
    alone = EnsembleSampler(law, seeds[2:3], coins[2:3], as_gradients=False).block()
    flipped = EnsembleSampler(law, seeds[2:3], ~coins[2:3], as_gradients=False).block()
    for step in range(law.block_steps):
        mine = together.index[step, 2, : together.counts[step, 2]]
        np.testing.assert_array_equal(mine, alone.index[step, 0, : alone.counts[step, 0]])
        peer = flipped.index[step, 0, : flipped.counts[step, 0]]
        np.testing.assert_array_equal(mine[mine < 100], peer[peer < 100])
        assert coins[2][mine[mine >= 100] - 100].all()
        assert not coins[2][peer[peer >= 100] - 100].any()


def test_gradient_canaries_are_drawn_like_records_but_reported_apart() -> None:
    law = Law(population=120, rate=0.25)
    seeds = tuple(Seed(3).child("model", index) for index in range(40))
    coins = np.random.default_rng(1).random((40, 20)) < 0.5
    sampler = EnsembleSampler(law, seeds, coins, as_gradients=True)
    block = sampler.block()
    assert block.extra is not None
    assert block.index.max() < 100
    assert not block.extra[:, ~coins].any()
    trials = law.block_steps * coins.sum()
    assert stats.binomtest(int(block.extra.sum()), int(trials), 0.25).pvalue > 1e-4


def test_rows_leave_room_for_most_batches() -> None:
    for population, rate in ((1500, 0.1), (60000, 0.002), (10, 0.5), (100, 1.0)):
        law = Law(population=population, rate=rate)
        assert law.rows % 16 == 0
        assert stats.binom.sf(law.rows, population, rate) < 2e-3
