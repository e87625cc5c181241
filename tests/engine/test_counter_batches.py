"""Batches from counters: the Poisson law, each record once, canaries by their coins, no batch cut short."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from audit.core.seeds import Seed
from audit.engine.microbatches import Passes
from audit.engine.random import counter_batches
from audit.engine.random.counter_batches import CounterSampler, DeviceBlock
from audit.engine.random.counter_streams import CounterStreams
from audit.engine.random.sampling import Law

CPU = torch.device("cpu")
SEEDS = tuple(Seed(number).child("batches") for number in range(4))


def sampler(
    law: Law, canaries: int = 0, *, coin: bool = True, as_gradients: bool = False, models: slice = slice(4)
) -> CounterSampler:
    seeds = SEEDS[models]
    included = np.full((len(seeds), canaries), coin)
    return CounterSampler(law, seeds, included, as_gradients=as_gradients, device=CPU)


def members(block: DeviceBlock, step: int, model: int) -> list[int]:
    return block.index[step, model, : int(block.lengths[step, model])].tolist()


def test_a_batch_is_the_records_whose_coins_fell() -> None:
    law = Law(population=37, rate=0.3)
    source = sampler(law)
    blocks = [source.block(), source.block()]
    coins = CounterStreams(SEEDS, CPU).heads(torch.arange(2 * law.block_steps), 0, 37, 0.3)
    for step in (0, 5, law.block_steps, 2 * law.block_steps - 1):
        block, within = blocks[step // law.block_steps], step % law.block_steps
        for model in range(4):
            assert members(block, within, model) == coins[step, model].nonzero().flatten().tolist()
        np.testing.assert_array_equal(block.sizes(within), coins[step].sum(1).numpy())


@pytest.mark.parametrize("canaries", [0, 40])
def test_rare_members_are_read_off_their_distances(canaries: int) -> None:
    law = Law(population=997, rate=0.03)
    source = sampler(law, canaries)
    blocks = [source.block(), source.block()]
    numbers = CounterStreams(SEEDS, CPU)._numbers(torch.arange(2 * law.block_steps), 0, 400)
    for step in range(2 * law.block_steps):  # so that each record and canary takes part somewhere
        for model in range(4):
            batch, record = [], -1
            for number in numbers[step, model].tolist():
                record += 1 + math.floor(math.log1p(-(number + 0.5) / 2**63) / math.log1p(-0.03))
                if record >= law.population:
                    break
                batch.append(record)
            assert members(blocks[step // law.block_steps], step % law.block_steps, model) == batch


@pytest.mark.parametrize(("population", "rate"), [(40, 0.5), (1000, 0.01), (30, 0.05), (200, 0.0625)])
def test_batch_sizes_are_binomial_and_records_equally_likely_and_independent(population: int, rate: float) -> None:
    law = Law(population=population, rate=rate)
    source = sampler(law)
    blocks = [source.block() for _ in range(8)]
    sizes = np.concatenate([block.counts.ravel() for block in blocks])
    edges = np.unique(stats.binom.ppf(np.linspace(0, 1, 13)[1:-1], population, rate))
    probabilities = np.diff(np.concatenate([[0.0], stats.binom.cdf(edges, population, rate), [1.0]]))
    observed = np.bincount(np.searchsorted(edges, sizes), minlength=len(probabilities))
    common = probabilities * len(sizes) > 4
    expected = (len(sizes) * probabilities)[common]
    statistic = ((observed[common] - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, common.sum() - 1) > 1e-4
    table = np.zeros((len(sizes), population))
    row = 0
    for block in blocks:
        for step in range(law.block_steps):
            for model in range(4):
                table[row, members(block, step, model)] = 1
                row += 1
    spread = ((table.sum(0) - row * rate) ** 2 / (row * rate * (1 - rate))).sum()
    assert 1e-4 < stats.chi2.sf(spread, population) < 1 - 1e-4
    lag = np.corrcoef(table[4:].ravel(), table[:-4].ravel())[0, 1]  # the same model, a step later
    beside = np.corrcoef(table[1:].ravel(), table[:-1].ravel())[0, 1]  # the next model, mostly in the same step
    assert max(abs(lag), abs(beside)) * np.sqrt(table.size) < 4


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e-9])
def test_the_rarest_members_do_not_take_part(rate: float) -> None:
    block = sampler(Law(population=1000, rate=rate), 3).block()
    assert not block.counts.any() and not block.index.any()


def test_a_million_records_cost_what_their_batches_cost() -> None:
    """Sixteen models and 64 steps would be 10^9 coins."""
    law = Law(population=10**6, rate=1e-4)
    seeds = tuple(Seed(number) for number in range(16))
    block = CounterSampler(law, seeds, np.zeros((16, 0), dtype=bool), as_gradients=False, device=CPU).block()
    places = block.index.flatten()[block.index.flatten() > 0].numpy()
    assert stats.kstest(places / 10**6, "uniform").pvalue > 1e-4
    assert stats.chi2.sf(((block.counts - 100) ** 2 / 100).sum(), block.counts.size) > 1e-4


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_extreme_rates(rate: float) -> None:
    block = sampler(Law(population=50, rate=rate)).block()
    assert (block.counts == 50 * rate).all()
    assert members(block, 3, 2) == list(range(int(50 * rate)))


@pytest.mark.parametrize("rate", [0.2, 0.06])
@pytest.mark.parametrize("coins", [200, 60, 7, 1])  # some steps, one, a few records of a step
def test_a_model_draws_the_same_beside_any_neighbours_and_in_pieces(
    coins: int, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = Law(population=61, rate=rate)
    monkeypatch.setattr(Law, "block_steps", 6)
    full = sampler(law, 4).block()
    monkeypatch.setattr(counter_batches, "_DRAW_COINS", coins)
    alone = sampler(law, 4, models=slice(2, 3)).block()
    for step in range(law.block_steps):
        assert members(alone, step, 0) == members(full, step, 2)


@pytest.mark.parametrize("rate", [0.4, 0.05])
@pytest.mark.parametrize("as_gradients", [False, True])
def test_the_coin_of_a_canary_leaves_all_others_alone(as_gradients: bool, rate: float) -> None:
    law = Law(population=40, rate=rate)
    present, absent = (sampler(law, 6, coin=coin, as_gradients=as_gradients).block() for coin in (True, False))
    for step in range(law.block_steps):
        there, away = members(present, step, 1), members(absent, step, 1)
        assert [record for record in there if record < 34] == away
        if as_gradients:
            assert there == away and present.extra is not None and absent.extra is not None
            assert present.sizes(step)[1] == len(there) + int(present.extra[step, 1].sum())
            assert not absent.extra.any()
    assert as_gradients == (present.extra is not None)
    if present.extra is not None:
        assert stats.binomtest(int(present.extra.sum()), present.extra.numel(), rate).pvalue > 1e-4
    else:
        assert (present.counts > absent.counts).any()


@pytest.mark.parametrize(("population", "rate"), [(400, 0.1), (800, 0.05)])
@pytest.mark.parametrize("as_gradients", [False, True])
def test_a_batch_beyond_the_reserved_rows_is_laid_out_whole(
    population: int, rate: float, as_gradients: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = Law(population=population, rate=rate)
    usual = sampler(law, 9, as_gradients=as_gradients).block()
    monkeypatch.setattr(math, "sqrt", lambda _: 0.0)  # as many rows as the mean
    monkeypatch.setattr(counter_batches, "_SPARE", 0)
    narrow = sampler(law, 9, as_gradients=as_gradients).block()
    if usual.extra is not None and narrow.extra is not None:
        assert torch.equal(usual.extra, narrow.extra)
    assert (usual.counts > 48).any()
    np.testing.assert_array_equal(narrow.counts, usual.counts)
    for step in range(law.block_steps):
        for model in range(4):
            assert members(narrow, step, model) == members(usual, step, model)


def test_passes_hold_every_record_of_a_batch_once() -> None:
    law = Law(population=300, rate=0.2)
    block = sampler(law).block()
    passes = Passes(32, 48, CPU)
    passes.load(block)
    for step in range(law.block_steps):
        gathered: list[list[int]] = [[] for _ in SEEDS]
        for index, mask in passes.iterate_step(step):
            assert index.shape == (mask.numel(),)
            for model, (row, real) in enumerate(zip(index.view(mask.shape), mask, strict=True)):
                gathered[model] += row[real].tolist()
        assert gathered == [members(block, step, model) for model in range(4)]


def test_empty_batches_have_a_pass_of_padding() -> None:
    passes = Passes(32, 48, CPU)
    passes.load(sampler(Law(population=20, rate=0.0)).block())
    parts = list(passes.iterate_step(0))
    assert len(parts) == 1 and parts[0][0].shape == (4 * 32,) and not parts[0][1].any()
