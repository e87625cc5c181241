"""What every way of reading a trained model promises: damaged and hostile files are refused by name, never run."""

from __future__ import annotations

import os
import pickle
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from audit import plugins
from audit.cli.targets import guess_kind
from audit.core.errors import DataError
from tests.subjects.foreign import FOREIGN

ALL_TARGETS = plugins.names("audit.subjects")
TARGETS = [
    kind
    for kind in ALL_TARGETS
    if find_spec(getattr(plugins.find("audit.subjects", kind), "library", "numpy")) is not None  # extras that are here
]
EXTRA = {"state_dict": {"factory": "torch.nn:Linear", "arguments": {"in_features": 4, "out_features": 3}}}


def build(kind: str, path: Path):
    return plugins.build("audit.subjects", {"kind": kind, "path": str(path), **EXTRA.get(kind, {})})


def valid(kind: str, path: Path) -> bytes:
    """A whole file of the kind, as bytes."""
    net = nn.Linear(4, 3).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "torch_export":
            torch.export.save(torch.export.export(net, (torch.zeros(2, 4),)), path)
        elif kind == "torchscript":
            torch.jit.save(torch.jit.script(net), str(path))
        elif kind == "state_dict":
            torch.save(net.state_dict(), path)
        elif kind in FOREIGN:
            if kind == "onnx":
                pytest.importorskip("onnx")  # which writes what onnxruntime, the library of the kind, can only read
            FOREIGN[kind](path)
        else:
            with path.open("wb") as file:  # savez would add a suffix to a name that lacks its own
                np.savez(file, logits=np.eye(4), labels=np.arange(4), member=[True, True, False, False])
    return path.read_bytes()


def where(kind: str, folder: Path) -> Path:
    return folder / f"target{plugins.find('audit.subjects', kind).suffixes[0]}"


@pytest.mark.parametrize("kind", TARGETS)
def test_a_file_is_known_by_its_suffix_and_where_kinds_share_one_by_what_it_holds(kind, tmp_path):
    for suffix in plugins.find("audit.subjects", kind).suffixes:
        path = tmp_path / f"target{suffix}"
        valid(kind, path)
        assert guess_kind(path) == kind


class Hostile:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("kind", TARGETS)
def test_a_missing_and_an_empty_file_are_named(kind, tmp_path):
    path = where(kind, tmp_path)
    with pytest.raises(DataError, match=path.name) as caught:
        build(kind, path)
    assert caught.value.exit_code == 2
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        build(kind, path)


@pytest.mark.usefixtures("models_in_this_process")
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_pickle_is_never_run(kind, protocol, tmp_path):
    path = where(kind, tmp_path)
    path.write_bytes(pickle.dumps(Hostile(tmp_path / "ran"), protocol=protocol))
    with pytest.raises(DataError, match=path.name):
        build(kind, path)
    torch.save(Hostile(tmp_path / "ran"), path)
    with pytest.raises(DataError, match=path.name):
        build(kind, path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("models_in_this_process")
@pytest.mark.parametrize("kind", TARGETS)
def test_a_file_that_was_cut_short_is_refused(kind, tmp_path):
    path = where(kind, tmp_path)
    full = valid(kind, path)
    for share in (0.05, 0.5, 0.9, 0.99):
        path.write_bytes(full[: int(share * len(full))])
        with pytest.raises(DataError, match=path.name):
            build(kind, path)


@pytest.mark.usefixtures("models_in_this_process")
@pytest.mark.parametrize("kind", TARGETS)
def test_noise_is_refused(kind, tmp_path):
    path = where(kind, tmp_path)
    generator = np.random.default_rng(0)
    for head in (b"", b"PK\x03\x04", b"\x80\x02", b"\x80\x04\x95", b"\x93NUMPY", b"PAR1", b"\x1f\x8b"):
        path.write_bytes(head + generator.bytes(300))
        with pytest.raises(DataError, match=path.name):
            build(kind, path)


@pytest.mark.slow  # each file of some kinds is read by a process of its own
@pytest.mark.parametrize("kind", TARGETS)
def test_flipped_bytes_are_refused_or_harmless(kind, tmp_path):
    path = where(kind, tmp_path)
    full = valid(kind, path)
    generator = np.random.default_rng(1)
    refused = 0
    for _ in range(15):
        damaged = bytearray(full)
        for place in generator.integers(0, len(full), 4):
            damaged[place] = generator.integers(0, 256)
        path.write_bytes(bytes(damaged))
        try:
            build(kind, path)
        except DataError as error:
            assert path.name in str(error)
            refused += 1
    assert refused > 0
