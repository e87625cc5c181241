"""Memory that runs out costs time, not results."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from audit.core.mechanism import DpSgd
from audit.core.protocols import TrainingJob
from audit.training.arrange import Settings
from audit.training.chunk import Chunk
from audit.training.ensemble import train
from tests.training import cases

NOISY = DpSgd(noise_multiplier=1.0, clip_norm=0.2, sample_rate=0.3, steps=6)
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


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_halves_of_a_chunk_give_the_same_bits(
    error: type[RuntimeError], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plenty = train(job(), cases.silent)
    tried = scarce(monkeypatch, 3, error)
    heard: list[int] = []
    with caplog.at_level(logging.WARNING):
        little = train(job(), heard.append, Settings(model_chunk=11))
    assert tried == [11, 5, 2, 3, 6, 3, 3]
    for name, value in plenty.weights.items():
        np.testing.assert_array_equal(value, little.weights[name])
    np.testing.assert_array_equal(plenty.executed.noise_multiplier, little.executed.noise_multiplier)
    assert sum(heard) == 11 * 6 and min(heard) > 0
    assert "memory ran out with 11 models at once" in caplog.text


def test_one_model_that_does_not_fit_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    scarce(monkeypatch, 0, RuntimeError)
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator") as found:
        train(job(2), cases.silent)
    assert "one model alone" in found.value.__notes__[0]


def test_other_errors_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def broken(self: Chunk, *_: object) -> None:
        tried.append(len(self.seeds))
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Chunk, "_step", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        train(job(), cases.silent, Settings(model_chunk=11))
    assert tried == [11]
