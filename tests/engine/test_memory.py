"""Memory that runs out costs time, not results."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch

from audit.core.errors import ConfigError
from audit.core.events import dp_sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine.chunk import Chunk
from audit.engine.ensemble import train
from audit.engine.gradients.clipping import Rows
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.microbatches import Passes, planned_rows
from audit.engine.random.sampling import EnsembleSampler, Law
from audit.engine.schedule import ScheduleSettings, arrange
from tests.engine import cases

NOISY = dp_sgd(noise_multiplier=1.0, clip_norm=0.2, sample_rate=0.3, steps=6)
CPU = "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."


def scarce(monkeypatch: pytest.MonkeyPatch, most: int, error: type[RuntimeError], step: int = 3) -> list[int]:
    """Makes every chunk of more than `most` models fail at `step`; the list receives the sizes that were tried."""
    honest, tried = Chunk._step, []

    def limited(self: Chunk, block: object, within: int, measured: object, now: int) -> object:
        if now == 0:
            tried.append(len(self.seeds))
        if now == step and len(self.seeds) > most:
            raise error(CPU if error is RuntimeError else "CUDA out of memory")
        return honest(self, block, within, measured, now)  # type: ignore[arg-type]

    monkeypatch.setattr(Chunk, "_step", limited)
    return tried


def job(models: int = 11) -> TrainingJob:
    return cases.job(NOISY, models=models)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_halves_of_a_chunk_give_the_same_bits(
    error: type[RuntimeError], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plenty = train(job(), cases.silent)
    tried = scarce(monkeypatch, 3, error)
    heard: list[int] = []
    with caplog.at_level(logging.WARNING):
        little = train(job(), heard.append, ScheduleSettings(model_chunk=11))
    assert tried == [11, 5, 2, 3, 6, 3, 3]
    for name, value in plenty.weights.items():
        np.testing.assert_array_equal(value, little.weights[name])
    np.testing.assert_array_equal(plenty.executed.noise_multiplier, little.executed.noise_multiplier)
    assert sum(heard) == 11 * 6 and min(heard) > 0
    assert "memory ran out with 11 models at once" in caplog.text


def test_one_model_that_does_not_fit_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    scarce(monkeypatch, 0, RuntimeError)
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator") as result:
        train(job(2), cases.silent)
    assert "one model alone does not fit into memory, not even with 16 rows" in result.value.__notes__[0]


def test_one_model_goes_on_with_fewer_rows(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """An allocator that grants at most 16 rows: every example still takes part, clipped as before, with the same noise."""
    many = cases.job(cases.varied(NOISY, sample_rate=0.9), data=cases.dataset((5,), train=200), models=3)
    plenty = train(many, cases.silent)
    honest, granted, heard = TapeGradients.add_sum, [], []

    def limited(self: TapeGradients, rows: Rows, *rest: Any) -> Any:
        width = rows.mask.shape[1]
        if self.models > 1 or width > 16:
            raise torch.OutOfMemoryError("CUDA out of memory")
        granted.append(width)
        return honest(self, rows, *rest)

    arranged = arrange(many, ScheduleSettings())
    monkeypatch.setattr(TapeGradients, "add_sum", limited)
    monkeypatch.setattr("audit.engine.ensemble.arrange", lambda *_: arranged)
    with caplog.at_level(logging.WARNING):
        little = train(many, heard.append)
    assert set(granted) == {1, 16} and len(granted) > 3 * 6 * 190 // 16
    assert "memory ran out with one model and 208 rows at once; going on with 112" in caplog.text
    assert "32 rows at once; going on with 16, which may change last bits" in caplog.text
    assert sum(heard) == 3 * 6
    for name, value in plenty.weights.items():
        np.testing.assert_allclose(value, little.weights[name], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(plenty.executed.batch_sizes, little.executed.batch_sizes)
    np.testing.assert_allclose(plenty.executed.noise_multiplier, little.executed.noise_multiplier, rtol=1e-4)


def test_a_pass_that_was_made_smaller_is_followed_by_as_wide_ones() -> None:
    law = Law(population=400, rate=0.5)
    block = EnsembleSampler(law, (Seed(0), Seed(1)), np.zeros((2, 0), dtype=bool), as_gradients=False).block()
    for rows, planned in ((planned_rows(law), planned_rows(law)), (64, planned_rows(law)), (16, 16)):
        passes = Passes(rows, planned, torch.device("cpu"))
        passes.load(block)
        for step in range(5):
            result = list(passes.iterate_step(step))
            widths = [mask.shape[1] for _, mask in result]
            wide = [min(rows, planned - start) for start in range(0, planned, rows)]  # the last no wider than what is planned
            assert widths[: len(wide)] == wide[: len(widths)] and set(widths[len(wide) :]) <= {16}
            for model in range(2):
                observed = [int(n) for chosen, mask in result for n in chosen.view(mask.shape)[model][mask[model]]]
                assert observed == block.index[step, model, : block.counts[step, model]].tolist()


def test_other_errors_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def broken(self: Chunk, *_: object) -> None:
        tried.append(len(self.seeds))
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Chunk, "_step", broken)
    # where a module of this name was loaded as code of a user's own, the error is told as one of it
    with pytest.raises((RuntimeError, ConfigError), match="shapes do not match"):
        train(job(), cases.silent, ScheduleSettings(model_chunk=11))
    assert tried == [11]
