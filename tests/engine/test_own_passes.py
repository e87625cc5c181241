"""Models with a batch that fills the cache train alone, in passes as long as their own batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from audit.core.events import Repeated, dp_sgd, sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine.ensemble import train
from audit.engine.microbatches import Passes
from audit.engine.random.sampling import EnsembleSampler, Law
from audit.engine.schedule import ScheduleSettings, arrange
from tests.engine import cases, fuzz

NOISY = dp_sgd(noise_multiplier=1.0, clip_norm=0.2, sample_rate=0.3, steps=6)
PLAIN = sgd(sample_rate=0.3, steps=6)


def job(name: str, mechanism: Repeated = NOISY, models: int = 4) -> TrainingJob:
    spec, shape = cases.MODELS[name]
    return cases.job(mechanism, model=spec, data=cases.dataset(shape, train=120), models=models)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes any model count as one with batches that fill the cache."""
    monkeypatch.setattr("audit.engine.schedule._ALONE_BYTES", 1)


@pytest.mark.parametrize("rows", [16, 48, 400])
def test_passes_of_equal_length_hold_each_record_once_and_no_row_beside(rows: int) -> None:
    law = Law(population=400, rate=0.2)
    block = EnsembleSampler(law, (Seed(0),), np.zeros((1, 0), dtype=bool), as_gradients=False).block()
    passes = Passes(rows, None, torch.device("cpu"))
    passes.load(block)
    for step in range(len(block.counts)):
        of_step, count = list(passes.iterate_step(step)), int(block.counts[step, 0])
        widths = [mask.shape[1] for _, mask in of_step]
        assert sum(widths) == count and len(widths) == -(-count // rows)
        assert all(width <= rows and width < count / len(widths) + 1 for width in widths)
        assert all(len(index) == mask.shape[1] for index, mask in of_step)
        observed = [int(n) for index, mask in of_step for n in index[mask[0]]]
        assert observed == block.index[step, 0, :count].tolist()


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("mechanism", [NOISY, PLAIN], ids=["private", "plain"])
@pytest.mark.parametrize("name", ["cnn", "sequences"])
def test_a_training_by_itself_is_that_of_padded_passes(name: str, mechanism: Repeated) -> None:
    models = job(name, mechanism, models=3)
    double = ScheduleSettings(dtype=torch.float64)
    assert arrange(models, double).planned is None
    narrow, wide = train(models, cases.silent, double), train(models, cases.silent, replace(double, rows=64))
    np.testing.assert_array_equal(narrow.executed.batch_sizes, wide.executed.batch_sizes)
    for key, value in narrow.weights.items():
        np.testing.assert_allclose(value, wide.weights[key], rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("alone")
def test_neighbours_and_a_wish_for_larger_chunks_change_no_bit() -> None:
    models = job("cnn")
    together, in_one = train(models, cases.silent), train(models, cases.silent, ScheduleSettings(model_chunk=4))
    last = train(replace(models, seeds=models.seeds[3:], included=models.included[3:]), cases.silent)
    for key, value in together.weights.items():
        np.testing.assert_array_equal(value, in_one.weights[key])
        np.testing.assert_array_equal(value[3:], last.weights[key])


def test_small_models_rows_that_are_asked_for_and_counters_keep_planned_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    models = job("cnn")
    assert arrange(models, ScheduleSettings()).planned is not None
    monkeypatch.setattr("audit.engine.schedule._ALONE_BYTES", 1)
    assert arrange(models, ScheduleSettings(model_chunk=4)).model_chunk == 1
    assert arrange(models, ScheduleSettings(rows=32, model_chunk=4)).model_chunk == 4
    assert arrange(models, ScheduleSettings(counters=True)).planned is not None


def test_a_model_that_mixes_records_sees_each_batch_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.engine.schedule._ALONE_BYTES", 0)  # its activations are not measured
    spec = {"factory": "tests.engine.fuzz:Fuzzed", "arguments": {"seed": 0, "mixes": True}}
    arranged = arrange(cases.job(PLAIN, model=spec, data=cases.dataset(fuzz.SHAPE, train=120), models=2), ScheduleSettings())
    assert arranged.planned is not None and arranged.rows >= 80  # of 36 records on average
