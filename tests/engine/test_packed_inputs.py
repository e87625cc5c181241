"""Models of several inputs: fed by name or as a dictionary, trained together, equal to a slow loop; wrong cuts are refused."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from audit.core.data import Records
from audit.core.errors import ConfigError, DataError
from audit.core.events import dp_sgd
from audit.core.record_arrays import RawArray
from audit.core.seeds import Seed
from audit.data.load import load
from audit.engine.ensemble import train
from audit.engine.read.observe import logits
from audit.engine.schedule import ScheduleSettings
from audit.experiment.games.job_specs import job_key
from audit.models.build import build
from audit.models.packed_inputs import refuse_order
from audit.trainers.user_function import UserFunction
from tests.engine import cases
from tests.engine.twin import slow_training

QUIET = dp_sgd(noise_multiplier=0.0, clip_norm=0.4, sample_rate=0.3, steps=3)
INPUTS = {"ids": {"shape": [5], "whole_numbers": True}, "mask": [5], "weight": []}


class ByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(11, 6), nn.Linear(6, 3)

    def forward(self, ids: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
        scores: Tensor = self.out((self.embed(ids) * mask.unsqueeze(-1)).sum(1)) * weight.unsqueeze(-1)
        return scores


class ByDictionary(ByName):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:  # type: ignore[override]
        return super().forward(**batch)


def arrays(count: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(count)
    mask = (random.random((count, 5)) < 0.7).astype(np.float32)
    return {"ids": random.integers(0, 11, (count, 5)), "mask": mask, "weight": random.random(count), "y": np.arange(count) % 3}


def spec_of(kind: str) -> dict[str, Any]:
    way = {"pass_inputs": "dictionary"} if kind == "ByDictionary" else {}
    return {"factory": f"{__name__}:{kind}", "inputs": INPUTS, **way}


@pytest.mark.parametrize("kind", ["ByName", "ByDictionary"])
def test_models_of_several_inputs_train_together_as_a_slow_loop_does(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    np.savez(tmp_path / "a.npz", **arrays(80))
    names = ["ids", "mask", "weight"]
    data = load({"kind": "npz", "path": "a.npz", "root": str(tmp_path), "arrays": names, "train": 40, "pool": 12}, Seed(1))
    job = cases.job(QUIET, model=spec_of(kind), data=data, models=2)
    with caplog.at_level(logging.WARNING):
        done = train(job, cases.silent, ScheduleSettings(dtype=torch.float64))
    assert "one after another" not in caplog.text
    for model in range(2):
        for name, value in slow_training(job, model).items():
            np.testing.assert_allclose(done.weights[name][model], value, rtol=1e-6, atol=1e-9, err_msg=name)


def test_whole_numbers_alone_stay_whole(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", ids=arrays(30)["ids"], kind=np.arange(30) % 2 == 0, y=arrays(30)["y"])
    spec = {"kind": "npz", "path": "a.npz", "root": str(tmp_path), "arrays": ["ids", "kind"], "whole_numbers": True}
    data = load({**spec, "train": 10, "pool": 10}, Seed(1))
    assert data.train.inputs.dtype == np.int64 and data.train.inputs.shape == (10, 6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": {"ids": [5]}}, "5 of 'ids' = 5 numbers of each record, but records have shape"),
        ({"inputs": ["ids"]}, "expected a mapping of names to shapes"),
        ({"inputs": {"ids": [0]}}, "numbers of at least 1"),
        ({"inputs": {"ids": {"shapes": [5]}}}, "Did you mean 'shape'"),
        ({"inputs": {"ids": {"shape": [11], "whole_numbers": 1}}}, "expected true or false"),
        ({"pass_inputs": "dictionry"}, "Did you mean 'dictionary'"),
        ({"inputs": None}, "expected a mapping of names to shapes"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build({**spec_of("ByName"), **change}, (11,), 3)


def test_names_in_another_order_than_the_arrays_are_refused() -> None:
    """Cut by order alone, ids would be made of masks, and all would train without a word."""
    with pytest.raises(ConfigError, match=r"names ids, mask, weight, but data\.arrays puts mask, ids, weight side by side"):
        refuse_order(spec_of("ByName"), {"kind": "npz", "arrays": ["mask", "ids", "weight"]})
    for arrays in (["ids", "mask", "weight"], ["a", "b"], None):
        refuse_order(spec_of("ByName"), {"kind": "npz", "arrays": arrays})


def test_the_key_of_a_job_tells_the_order_of_inputs() -> None:
    specs = [{**spec_of("ByName"), "inputs": dict(items)} for items in (INPUTS.items(), reversed(INPUTS.items()))]
    jobs = [cases.job(QUIET, model=spec, data=cases.dataset((11,))) for spec in specs]
    assert specs[0] == specs[1] and len({job_key(job, UserFunction(function="a:b"), "", (), "") for job in jobs}) == 2


def test_a_way_without_inputs_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"name them in model\.inputs"):
        build({"factory": f"{__name__}:ByName", "pass_inputs": "keywords"}, (11,), 3)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, {}, "lacks the array x and holds ids, mask, weight; .*data.arrays"),
        ({}, {"arrays": ["ids", "mask"]}, "also has weight"),
        ({"mask": np.zeros((9, 5))}, {"arrays": ["ids", "mask", "weight"]}, "as many records in each"),
        ({"mask": np.full((30, 5), "a")}, {"arrays": ["ids", "mask", "weight"]}, "expected numbers"),
        ({"ids": np.full((30, 5), 2**24 + 1)}, {"arrays": ["ids", "mask", "weight"]}, "ids holds whole numbers beyond 2"),
    ],
)
def test_arrays_that_cannot_stand_side_by_side_are_refused(
    change: dict[str, Any], options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", **{**arrays(30), **change})
    with pytest.raises(DataError, match=words):
        load({"kind": "npz", "path": "a.npz", "root": str(tmp_path), "train": 10, "pool": 10, **options}, Seed(1))


@pytest.mark.parametrize("token", [-1, 11])
def test_a_token_without_a_row_is_refused_and_reaches_no_other_model(token: int, tmp_path: Path) -> None:
    """Numbered from the end, as -1 is by torch, the row would be the last one of the model before."""
    np.savez(tmp_path / "a.npz", **arrays(160))
    names = ["ids", "mask", "weight"]
    data = load({"kind": "npz", "path": "a.npz", "root": str(tmp_path), "arrays": names, "train": 140, "pool": 12}, Seed(0))
    inputs = np.array(data.train.inputs)
    inputs[1::2, 2] = token  # the trial looks at every other record
    data = replace(data, train=Records(inputs=inputs, labels=data.train.labels))
    with pytest.raises(DataError, match=f"holds the number {token}, .*from 0 to 10"):
        train(cases.job(QUIET, model=spec_of("ByName"), data=data, models=2), cases.silent)


@pytest.mark.parametrize("names", ["ids", ["ids", "ids"], ["ids", "y"], [3]])
def test_names_of_arrays_are_different_texts(names: object) -> None:
    with pytest.raises(ConfigError, match=r"data\.arrays is"):
        load({"kind": "npz", "path": "a.npz", "arrays": names}, Seed(1))


def test_a_model_of_several_inputs_without_names_is_told_of_them() -> None:
    job = cases.job(QUIET, model={"factory": f"{__name__}:ByName"}, data=cases.dataset((11,)))
    with pytest.raises(ConfigError, match=r"missing 2 required positional arguments.*model\.inputs names"):
        train(job, cases.silent)


def fractions(share: float) -> tuple[Any, np.ndarray]:
    """A job on packed inputs; the last training record holds `share` instead of a whole number."""
    columns = arrays(60)
    joint = np.concatenate([columns["ids"], columns["mask"], columns["weight"][:, None]], axis=1).astype(np.float32)
    data = cases.dataset((11,))
    train_inputs = joint[: len(data.train)].copy()
    train_inputs[-1, 2] += share
    parts = {
        "train": replace(data.train, inputs=train_inputs),
        "pool": replace(data.pool, inputs=joint[: len(data.pool)]),
        "test": replace(data.test, inputs=joint[: len(data.test)]),
    }
    return cases.job(QUIET, model=spec_of("ByName"), data=replace(data, **parts), models=2), joint


@pytest.mark.parametrize("in_parts", [False, True])
def test_fractions_in_the_place_of_whole_numbers_are_refused(in_parts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were cut off: 4.5 trained and answered as 4."""
    job, joint = fractions(0.5)
    if in_parts:
        mapped = RawArray(job.dataset.train.inputs, np.arange(len(job.dataset.train)), (np.zeros(1), np.ones(1)))
        job = replace(job, dataset=replace(job.dataset, train=replace(job.dataset.train, inputs=mapped)))
    with pytest.raises(DataError, match=r"model\.inputs\.ids takes whole numbers, but a record or canary holds \d+\.5 there"):
        train(job, cases.silent)
    weights = train(fractions(0.0)[0], cases.silent).weights
    joint[3, 0] = 2.25
    with pytest.raises(DataError, match=r"model\.inputs\.ids .* holds 2\.25 there"):
        logits(job.model, weights, joint[:6], 3)
    joint[3, 0] = np.nan
    with pytest.raises(DataError, match=r"holds nan there"):
        logits(job.model, weights, joint[:6], 3)
