"""State dicts that hold something else than dense numbers in memory: each ends in a sentence, none in a traceback."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from audit import plugins
from audit.core.errors import DataError
from tests.subjects.watcher import watched

WEIGHT = torch.eye(2, 3)
KINDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "meta": lambda weight: weight.to("meta"),
    "sparse": lambda weight: weight.to_sparse(),
    "complex": lambda weight: weight + 1j,
    "quantised": lambda weight: torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8),
    "nested": lambda weight: torch.nested.nested_tensor(list(weight)),
}


def target(path: Path) -> object:
    options = {"factory": "torch.nn:Linear", "arguments": {"in_features": 3, "out_features": 2}}
    return plugins.build("audit.subjects", {"kind": "state_dict", "path": str(path), **options})


def saved(path: Path, weight: torch.Tensor) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save({"weight": weight, "bias": torch.zeros(2)}, path)
    return path


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_no_dense_numbers_are_refused(tmp_path: Path, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = saved(tmp_path / "w.pt", KINDS[kind](WEIGHT))
        with watched(tmp_path / "scratch"), pytest.raises(DataError, match=rf"w\.pt: 'weight' is .*{kind}.*; expected dense"):
            target(path)


def test_weights_that_stand_for_more_than_they_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"its tensors hold 10\.9 TiB, in a file of"):
        target(saved(tmp_path / "w.pt", torch.zeros(1).expand(10**12, 3)))


@pytest.mark.slow
def test_a_bomb_is_refused_before_torch_reads_it(tmp_path: Path) -> None:
    file = io.BytesIO()
    torch.save({"weight": torch.zeros(2**24 + 1)}, file)
    with zipfile.ZipFile(file) as plain, zipfile.ZipFile(tmp_path / "w.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    with pytest.raises(DataError, match="it unpacks to 67,1"):
        target(tmp_path / "w.pt")


def test_plain_weights_pass(tmp_path: Path) -> None:
    logits = target(saved(tmp_path / "w.pt", WEIGHT.double())).logits(np.eye(3, dtype=np.float32))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(logits, np.eye(3, 2))
