"""An adapter's settings and tensors from strangers are refused before a library fetches, matches or allocates anything."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from audit.core.errors import DataError
from audit.models import adapter_files

SETTINGS = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["first"], "bias": "none", "rank_pattern": {}}
PAIR = {"base_model.model.h.first.lora_A.weight": (2, 5), "base_model.model.h.first.lora_B.weight": (3, 2)}


def base() -> nn.Module:
    return nn.ModuleDict({"h": nn.ModuleDict({"first": nn.Linear(5, 3), "second": nn.Linear(3, 5)}), "head": nn.Linear(5, 7)})


def written(folder: Path, settings: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> Path:
    (folder / adapter_files.SETTINGS).write_text(json.dumps(settings))
    save_file({key: torch.zeros(shape) for key, shape in shapes.items()}, folder / adapter_files.MATRICES)
    return folder


def options(folder: Path) -> dict[str, Any]:
    return adapter_files.peft_options(adapter_files.settings(folder), folder, base())


def test_checked_settings_are_all_that_is_handed_on(tmp_path: Path) -> None:
    full = {"base_model.model.head.weight": (7, 5), "base_model.model.head.bias": (7,)}
    settings = SETTINGS | {"base_model_name_or_path": "attacker/repository", "modules_to_save": ["head"], "lora_dropout": 0.1}
    assert options(written(tmp_path, settings, PAIR | full)) == {
        "r": 2,
        "lora_alpha": 4,
        "target_modules": ["h.first"],
        "bias": "none",
        "modules_to_save": ["head"],
        "task_type": "CAUSAL_LM",
        "inference_mode": True,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "XLORA", "adapters": {"0": "attacker/repository"}}, "'peft_type' is XLORA; expected 'LORA'"),
        ({"peft_type": "MULTITASK_PROMPT_TUNING"}, "'peft_type' is"),
        (
            {"prompt_tuning_init_state_dict_path": "/etc/hostname"},
            "state_dict_path' is /etc/hostname, which",
        ),
        ({"bias": "some"}, "'bias' is some"),
        ({"target_modules": []}, "'target_modules' is"),
        ({"modules_to_save": ["(a*)*"]}, "'modules_to_save' is"),
        ({"rank_pattern": {"(a*)*!": 3}}, "'rank_pattern' is"),
        ({"loftq_config": {"loftq_bits": 4}}, "'loftq_config' is"),
        ({"init_lora_weights": "pissa"}, "'init_lora_weights' is pissa"),
        ({"task_type": "SEQ_CLS"}, "'task_type' is"),
        ({"r": True}, "'r' is True"),
        ({"r": 0}, "'r' is 0"),
        ({"lora_alpha": float("nan")}, "'lora_alpha' is nan"),
        ({"lora_alpha": 10**400}, "'lora_alpha' is beyond 64 bits"),
        ({"x" * 2_000: 1}, r"x{80}\.\.\.' is 1"),
    ],
    ids=lambda value: next(iter(value))[:30] if isinstance(value, dict) else "",
)
def test_other_settings_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        adapter_files.settings(written(tmp_path, SETTINGS | changes, PAIR))


def test_settings_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    place = tmp_path / adapter_files.SETTINGS
    for content, message in (
        (b"\xff", "cannot be read as JSON"),
        (b"[" * 100_000, "nested too deeply|cannot be read as JSON"),
        (b"[]", "holds a list"),
        (b'{"peft_type": "LORA"}', "has no 'r'"),
        (b" " * (1 << 20) + b"{}", "more than 1,048,576 bytes"),
    ):
        place.write_bytes(content)
        with pytest.raises(DataError, match=message):
            adapter_files.settings(tmp_path)
    place.unlink()
    os.mkfifo(place)
    assert adapter_files.is_adapter(tmp_path)
    with pytest.raises(DataError, match="it is a pipe"):
        adapter_files.settings(tmp_path)


A, B = PAIR


@pytest.mark.parametrize(
    ("changes", "shapes", "message"),
    [
        ({"r": 10**9}, PAIR, "'r' is 1000000000"),
        ({"r": 10**30}, PAIR, "'r' is beyond 64 bits"),
        ({}, PAIR | {A: (2, 6)}, r"the base has \(3, 5\)"),
        ({"r": 4000}, {A: (4000, 1), B: (1, 4000)}, r"the base has \(3, 5\)"),
        ({}, PAIR | {A: (2,)}, r"\(2,\) and \(3, 2\)"),
        ({}, {A: (2, 5)}, r"no 'lora_B\.weight' of layer 'h\.first'"),
        ({}, {key.replace("first", "third"): shape for key, shape in PAIR.items()}, "are not those of the base"),
        ({}, {key.replace("h.first", "first"): shape for key, shape in PAIR.items()}, "are not those of the base"),
        ({}, {}, "no matrices of an adapter"),
        ({}, PAIR | {"base_model.model.head.weight": (8, 5)}, "is none of the base"),
        ({}, PAIR | {"elsewhere": (1,)}, "'elsewhere' .* is none of the base"),
        ({}, PAIR | {"base_model.model.h.first.lora_magnitude_vector": (3,)}, "is none of the base"),
        ({"modules_to_save": ["head"]}, PAIR | {"base_model.model.head.weight": (7, 5)}, "or not all"),
        ({"modules_to_save": ["h"]}, PAIR, "'modules_to_save' names 'h'"),
    ],
)
def test_tensors_are_held_against_settings_and_base(
    changes: dict[str, Any], shapes: dict[str, tuple[int, ...]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        options(written(tmp_path, SETTINGS | changes, shapes))


@pytest.mark.parametrize(
    "choice",
    [
        {"target_modules": r"(([a-z._]|\d)*)*!"},
        {"target_modules": "all-linear"},
        {"target_modules": ["second"]},
        {"target_modules": [f"n{number}" for number in range(50_000)]},
        {"layers_to_transform": [0], "layers_pattern": "(a*)*!"},
        {"exclude_modules": "(a*)*!"},
    ],
    ids=["pattern", "all", "other", "many", "layers", "excluded"],
)
def test_layers_are_those_of_the_tensors_whatever_chose_them(choice: dict[str, Any], tmp_path: Path) -> None:
    begin = time.process_time()
    assert options(written(tmp_path, SETTINGS | choice, PAIR))["target_modules"] == ["h.first"]
    assert time.process_time() - begin < 5
