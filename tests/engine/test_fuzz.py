"""Random modules train like the slow loop, to rounding of double precision, or are refused where they mix records."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from audit.core.errors import UnsupportedMechanism
from audit.core.events import Repeated, dp_sgd, sgd
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings
from tests.engine import cases, fuzz
from tests.engine.twin import slow_training
from tests.marks import sample

DOUBLE = ScheduleSettings(dtype=torch.float64)
FEW, MANY = (*range(12), 398), (*range(12, 398), 399)  # 398: a frozen layer on positions before records
SEEDS = [*FEW, *sample(((seed,) for seed in MANY), 3)]


def compare(seed: int, mixes: bool, mechanism: Repeated) -> None:
    spec = {"factory": "tests.engine.fuzz:Fuzzed", "arguments": {"seed": seed, "mixes": mixes}}
    job = cases.job(mechanism, model=spec, data=cases.dataset(fuzz.SHAPE), models=2)
    done = train(job, cases.silent, DOUBLE)
    assert done.executed.recomputed.max() < 1e-7
    for model in range(2):
        expected = slow_training(job, model, whole_batches=mixes)
        for name, value in expected.items():
            np.testing.assert_allclose(done.weights[name][model], value, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_modules_train_like_the_slow_loop(seed: int) -> None:
    clip_norm = (0.05, 1.0, 1e9)[seed % 3]
    compare(seed, False, dp_sgd(noise_multiplier=0.0, clip_norm=clip_norm, sample_rate=0.2, steps=3))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_modules_that_mix_records_are_refused_under_privacy_and_trained_as_they_are_without(seed: int) -> None:
    with pytest.raises(UnsupportedMechanism, match="other records of the batch"):
        compare(seed, True, dp_sgd(noise_multiplier=0.0, clip_norm=1.0, sample_rate=0.2, steps=3))
    if seed % 3 == 0:
        compare(seed, True, sgd(sample_rate=0.2, steps=3))
