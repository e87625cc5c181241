"""Random modules train like the slow loop, to rounding of double precision, or are refused if they mix records."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import Repeated, dp_sgd, sgd
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings
from tests.engine import cases, fuzz
from tests.engine.twin import slow_training
from tests.marks import sample

DOUBLE = ScheduleSettings(dtype=torch.float64)
FEW, MANY = (*range(12), 398), (*range(12, 398), 399)  # 398: a frozen layer on positions before records
CHOSEN = (766, 813)  # experts that a trial sees take all rows, or as many of each model, and a training does not
PARTS_SEEDS = [*range(6), *CHOSEN, *sample(((seed,) for seed in range(6, 300)), 3)]
SEEDS = [*FEW, *sample(((seed,) for seed in MANY), 3)]


def compare(seed: int, mixes: bool, mechanism: Repeated, *, parts: bool = False) -> None:
    """Hold the engine's training of a random module against the slow loop; every third with parts takes two tensors."""
    spec = {"factory": "tests.engine.fuzz:Fuzzed", "arguments": {"seed": seed, "mixes": mixes, "parts": parts}}
    shape: tuple[int, ...] = fuzz.SHAPE
    if parts and seed % 3 == 0:
        inputs, shape = {"left": [fuzz.POSITIONS // 2, fuzz.WIDTH], "right": [2]}, (fuzz.POSITIONS // 2 * fuzz.WIDTH + 2,)
        spec = {"factory": "tests.engine.fuzz:Several", "arguments": {"seed": seed, "mixes": mixes}, "inputs": inputs}
        if seed % 2:
            spec["pass_inputs"] = "dictionary"
    job = cases.job(mechanism, model=spec, data=cases.dataset(shape), models=2)
    done = train(job, cases.silent, DOUBLE)
    assert done.executed.recomputed.max() < 1e-7
    for model in range(2):
        expected = slow_training(job, model, whole_batches=mixes)
        for name, value in expected.items():
            np.testing.assert_allclose(done.weights[name][model], value, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_modules_train_like_the_slow_loop(seed: int) -> None:
    clip_norm = (0.05, 1.0, 1e9)[seed % 3]
    compare(seed, False, dp_sgd(noise_multiplier=0.0, clip_norm=clip_norm, sample_rate=0.2, steps=3))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_modules_that_mix_records_are_refused_under_privacy_and_trained_as_they_are_without(seed: int) -> None:
    with pytest.raises(UnsupportedMechanism, match="other records of the batch"):
        compare(seed, True, dp_sgd(noise_multiplier=0.0, clip_norm=1.0, sample_rate=0.2, steps=3))
    if seed % 3 == 0:
        compare(seed, True, sgd(sample_rate=0.2, steps=3))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", PARTS_SEEDS)
def test_random_modules_of_todays_parts_train_like_the_slow_loop(seed: int) -> None:
    mechanism = dp_sgd(noise_multiplier=0.0, clip_norm=(0.05, 1.0, 1e9)[seed // 2 % 3], sample_rate=0.2, steps=3)
    try:
        compare(seed, False, mechanism, parts=True)
    except ConfigError as error:
        assert "has no trainable parameter" in str(error)


@pytest.mark.parametrize("seed", PARTS_SEEDS)
def test_random_modules_of_todays_parts_that_mix_records_are_refused_under_privacy(seed: int) -> None:
    with pytest.raises(UnsupportedMechanism, match="other records of the batch"):
        compare(seed, True, dp_sgd(noise_multiplier=0.0, clip_norm=1.0, sample_rate=0.2, steps=3), parts=True)


@pytest.mark.parametrize(("seed", "kind"), [(0, Tensor), (3, dict)])
def test_records_in_two_tensors_reach_random_modules_by_name_or_in_a_dictionary(
    seed: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: set[type] = set()
    forward = fuzz.Several.forward

    def noted(self: fuzz.Several, left: Tensor | dict[str, Tensor], right: Tensor | None = None) -> Tensor:
        kinds.add(dict if isinstance(left, dict) else Tensor)
        return forward(self, left, right)

    monkeypatch.setattr(fuzz.Several, "forward", noted)
    compare(seed, False, sgd(sample_rate=0.2, steps=1), parts=True)
    assert kinds == {kind}
