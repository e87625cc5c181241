"""What holds of every compiled training, whatever the architecture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from audit.core.training import TrainedModels, TrainingJob
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings
from tests.engine import cases

ON = ScheduleSettings(compile="on")


def same(first: TrainedModels, second: TrainedModels) -> bool:
    return all(np.array_equal(first.weights[name], second.weights[name]) for name in first.weights)


def train_both_ways(job: TrainingJob) -> tuple[TrainedModels, TrainedModels]:
    """Return models by torch and compiled: equal to rounding, the latter to the bit in any chunk, order and threads."""
    plain, full = train(job, cases.silent), train(job, cases.silent, ON)
    assert not same(plain, full)
    for name, value in plain.weights.items():
        np.testing.assert_allclose(value, full.weights[name], rtol=1e-3, atol=1e-5)
    for chunk in (1, 2, 3):
        assert same(full, train(job, cases.silent, replace(ON, model_chunk=chunk)))
    backwards = train(replace(job, seeds=job.seeds[::-1], included=job.included[::-1]), cases.silent, ON)
    for name, value in full.weights.items():
        np.testing.assert_array_equal(value, backwards.weights[name][::-1])
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert same(full, train(job, cases.silent, ON))
    finally:
        torch.set_num_threads(threads)
    return plain, full
