"""DP-FTRL: batches in cycles, noise that the encoder makes independent again, and canaries that show what is accounted for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from audit import plugins
from audit.checks.execution import check_executed
from audit.core.adjacency import Adjacency
from audit.core.canaries import Canaries, CoordinateGradients
from audit.core.deployed_events import MatrixFactorization, encoder_sensitivity
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import dp_sgd, sgd
from audit.core.protocols import MechanismSetting
from audit.core.results import Status
from audit.core.seeds import Seed
from audit.engine import chunk
from audit.engine.gradients.step_noise import Encoder
from audit.engine.random.cyclic_batches import CyclicSampler, places
from audit.engine.random.sampling import Block, Law
from audit.mechanisms.matrix_factorization import BandedMatrixFactorization, square_root
from audit.models.build import starting
from audit.trainers.matrix_factorization import MatrixFactorizationTrainer, encoder_matrix
from tests.engine import cases

CYCLE, STEPS = 4, 10
EVENT = MatrixFactorization(
    noise_multiplier=1.3, clip_norm=0.5, coefficients=square_root(4), steps=STEPS, participations=3, separation=CYCLE
)
DIRAC = Canaries(kind="dirac", description="", payload=CoordinateGradients(coordinates=np.arange(0, 70)))


def statuses(event: MatrixFactorization, job: Any, **options: Any) -> dict[str, Status]:
    executed = MatrixFactorizationTrainer(**options).fit(job, cases.silent).executed
    return {check.code: check.status for check in check_executed(event, executed)}


@pytest.mark.parametrize("coefficients", [(1.0,), (2.0,), square_root(3), (0.5, -0.25, 0.1)])
def test_the_encoder_gives_the_independent_numbers_back(coefficients: tuple[float, ...]) -> None:
    event = replace(EVENT, coefficients=coefficients)
    numbers = [torch.randn(2, 5, dtype=torch.float64) for _ in range(STEPS)]
    noise, back = Encoder(coefficients), Encoder(coefficients)
    correlated = [noise.solve(row).clone() for row in numbers]
    for row, number in zip(correlated, numbers, strict=True):
        torch.testing.assert_close(back.apply(row), number)
    expected = np.linalg.solve(encoder_matrix(event), torch.stack(numbers).reshape(STEPS, -1).numpy())
    np.testing.assert_allclose(torch.stack(correlated).reshape(STEPS, -1).numpy(), expected)


def test_each_record_has_one_place_in_every_cycle_whoever_else_is_there() -> None:
    law, included = Law(population=50, rate=1 / CYCLE), np.ones((2, 10), dtype=bool)
    included[1, ::2] = False
    seeds = (Seed(1), Seed(2))
    block = CyclicSampler(law, seeds, included, cycle=CYCLE, as_gradients=False).block()
    for model, seed in enumerate(seeds):
        observed = [set(block.index[step, model, : block.counts[step, model]].tolist()) for step in range(2 * CYCLE)]
        assert observed[:CYCLE] == observed[CYCLE:]
        members = set(range(40)) | {40 + int(canary) for canary in np.flatnonzero(included[model])}
        assert sorted(record for batch in observed[:CYCLE] for record in batch) == sorted(members)
        turns = places(seed, 50, CYCLE)
        assert all(turns[record] == step for step in range(CYCLE) for record in observed[step])
    gradients = CyclicSampler(law, seeds, included, cycle=CYCLE, as_gradients=True).block()
    assert gradients.extra is not None and (gradients.extra[:CYCLE].sum(0) == included).all()
    np.testing.assert_array_equal(places(Seed(1), 50, CYCLE), places(Seed(1), 51, CYCLE)[:50])


def test_batches_go_on_in_the_cycle_from_one_block_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Law, "block_steps", CYCLE + 1)
    law = Law(population=50, rate=1 / CYCLE)
    included, seeds = np.ones((2, 10), dtype=bool), (Seed(1), Seed(2))
    sampler = CyclicSampler(law, seeds, included, cycle=CYCLE, as_gradients=True)
    for number in range(3):
        block = sampler.block()
        assert block.extra is not None
        for model, seed in enumerate(seeds):
            turns = places(seed, 50, CYCLE)
            for step in range(CYCLE + 1):
                turn = (number * (CYCLE + 1) + step) % CYCLE
                batch = block.index[step, model, : block.counts[step, model]]
                np.testing.assert_array_equal(batch, np.flatnonzero(turns[:40] == turn))
                np.testing.assert_array_equal(block.extra[step, model], turns[40:] == turn)


@pytest.mark.parametrize("compiled", ["off", "on"])
def test_without_noise_it_is_clipped_descent_over_the_cycles(compiled: str) -> None:
    event = replace(EVENT, noise_multiplier=0.0)
    job = cases.job(event, models=2, optimizer={"kind": "sgd", "learning_rate": 0.3})
    models = MatrixFactorizationTrainer(compile=compiled).fit(job, cases.silent).models
    inputs = torch.from_numpy(np.concatenate([job.dataset.train.inputs, job.canaries.records.inputs]))  # type: ignore[union-attr]
    labels = torch.from_numpy(np.concatenate([job.dataset.train.labels, job.canaries.records.labels]))  # type: ignore[union-attr]
    for number, seed in enumerate(job.seeds):
        module = starting(job.model, (5,), 3, seed.child("init"), None)
        present = np.concatenate([np.ones(40, dtype=bool), job.included[number]])
        turns = places(seed.child("batches"), 52, CYCLE)
        for step in range(STEPS):
            rows = np.flatnonzero((turns == step % CYCLE) & present)
            total, _ = cases.slow_sum(module, inputs[rows], labels[rows], 0.5)
            with torch.no_grad():
                for parameter, gradient in zip(module.parameters(), total, strict=True):
                    parameter.sub_(gradient, alpha=0.3 / (52 / CYCLE))
        for name, value in module.state_dict().items():
            np.testing.assert_allclose(models.weights[name][number], value.numpy(), rtol=1e-4, atol=1e-6)


def test_canaries_show_what_is_accounted_for() -> None:
    job = cases.job(EVENT, canaries=DIRAC, models=6)
    models = MatrixFactorizationTrainer().fit(job, cases.silent).models
    assert models.products is not None
    scores = models.products.astype(float).sum(2)
    lengths = {}
    for place in range(CYCLE):
        taking = (np.arange(STEPS) % CYCLE == place).astype(float)
        lengths[place] = float(np.linalg.norm(encoder_matrix(EVENT) @ taking))
    assert max(lengths.values()) == pytest.approx(encoder_sensitivity(EVENT))
    turns = np.stack([places(seed.child("batches"), 110, CYCLE)[40:] for seed in job.seeds])
    residuals = scores - job.included * np.vectorize(lengths.__getitem__)(turns)
    assert abs(residuals.mean()) < 4.5 * 1.3 / np.sqrt(residuals.size)
    assert 1e-4 < stats.chi2.sf((residuals**2).sum() / 1.3**2, residuals.size) < 1 - 1e-4


def test_what_was_done_is_held_against_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    job = cases.job(EVENT, models=4)
    rows = statuses(EVENT, job)
    assert {"steps", "noise", "clipping", "clipping-recomputed", "sampling-cycles"} <= rows.keys()
    assert "sampling-law" not in rows and set(rows.values()) == {Status.CHECKED}
    assert statuses(replace(EVENT, noise_multiplier=1.5), job)["noise"] is Status.FAILED
    assert statuses(replace(EVENT, separation=5), job)["sampling-cycles"] is Status.FAILED
    monkeypatch.setattr(Encoder, "solve", lambda self, row: row)
    assert statuses(EVENT, job)["noise"] is Status.FAILED  # independent noise is not what the encoder accounts for


class ShuffledAnew(CyclicSampler):
    """Members change places among the batches of each cycle after the first; batch sizes stay."""

    def block(self) -> Block:
        block = super().block()
        for start in range(CYCLE, len(block.index), CYCLE):
            for model in range(block.index.shape[1]):
                part = slice(start, start + CYCLE)
                present = np.arange(block.index.shape[2]) < block.counts[part, model, None]
                rows = block.index[part, model]
                rows[present] = np.random.default_rng(start).permutation(rows[present])
        return block


@pytest.mark.parametrize("canaries", [None, DIRAC])
def test_members_have_to_come_back_and_not_only_sizes(canaries: Canaries | None, monkeypatch: pytest.MonkeyPatch) -> None:
    job = cases.job(EVENT, models=3, **({} if canaries is None else {"canaries": canaries}))
    assert statuses(EVENT, job)["sampling-cycles"] is Status.CHECKED
    monkeypatch.setattr(chunk, "CyclicSampler", ShuffledAnew)
    executed = MatrixFactorizationTrainer().fit(job, cases.silent).executed
    np.testing.assert_array_equal(executed.batch_sizes[:, CYCLE:], executed.batch_sizes[:, :-CYCLE])
    assert statuses(EVENT, job)["sampling-cycles"] is Status.FAILED


def test_a_model_does_not_depend_on_its_neighbours() -> None:
    job = cases.job(EVENT, models=5)
    full, parts = (MatrixFactorizationTrainer(model_chunk=chunk).fit(job, cases.silent).models for chunk in (5, 2))
    for name, value in full.weights.items():
        np.testing.assert_array_equal(value, parts.weights[name])


def test_other_mechanisms_and_more_participations_are_refused() -> None:
    trainer = MatrixFactorizationTrainer()
    for peer in (dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.2, steps=3), sgd(sample_rate=0.2, steps=3)):
        with pytest.raises(UnsupportedMechanism, match="executes a matrix factorisation but the job demands"):
            trainer.fit(cases.job(peer), cases.silent)
    with pytest.raises(UnsupportedMechanism, match=r"take a record 3 times, and .* accounts for 2"):
        trainer.fit(cases.job(replace(EVENT, participations=2)), cases.silent)
    with pytest.raises(UnsupportedMechanism, match="clips to one norm in all steps"):
        MatrixFactorizationTrainer(clipping="adaptive")
    for name in ("dpsgd", "sgd"):
        with pytest.raises(UnsupportedMechanism):
            plugins.build("audit.trainers", {"kind": name}).fit(cases.job(EVENT), cases.silent)


def test_noise_is_calibrated_to_the_factorisation() -> None:
    (accountant,) = (plugins.build("audit.accounting.accountants", {"kind": "reference"}),)
    setting = MechanismSetting(
        sample_rate=0.25, steps=STEPS, delta=1e-5, adjacency=Adjacency.ADD_REMOVE, accountants=(accountant,)
    )
    claims = {}
    for bands in (None, 1, 2):
        event = BandedMatrixFactorization(target_epsilon=4.0, bands=bands).event(setting)
        assert isinstance(event, MatrixFactorization) and (event.separation, event.participations) == (CYCLE, 3)
        claims[bands] = accountant.claim(event, delta=1e-5, adjacency=Adjacency.ADD_REMOVE).epsilon
    assert all(3.99 < epsilon <= 4.0 for epsilon in claims.values())
    # one band is independent noise on batches that each record is in three times
    alone = dp_sgd(noise_multiplier=event.noise_multiplier, clip_norm=1.0, sample_rate=1.0, steps=3)
    single = BandedMatrixFactorization(noise_multiplier=event.noise_multiplier, bands=1).event(setting)
    figures = [accountant.claim(each, delta=1e-5, adjacency=Adjacency.ADD_REMOVE).epsilon for each in (alone, single)]
    assert figures[0] == pytest.approx(figures[1], rel=1e-4)
    for options in ({}, {"noise_multiplier": 1.0, "target_epsilon": 2.0}):
        with pytest.raises(ConfigError, match="exactly one of noise_multiplier and target_epsilon"):
            BandedMatrixFactorization(**options)
