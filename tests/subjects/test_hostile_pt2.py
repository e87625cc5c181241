"""Hostile `torch.export` archives: none crashes the audit, fills its memory or makes it wait; each ends in a sentence."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from audit import plugins
from audit.core import files
from audit.core.errors import DataError
from audit.subjects import _pt2_archive
from tests.subjects.watcher import watched

INPUTS = np.ones((5, 3), np.float32)
PROGRAM = "models/model.json"


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


@pytest.fixture(scope="module")
def entries() -> dict[str, bytes]:
    """What `torch.export.save` writes for a small model, by the path inside its one folder."""
    file = io.BytesIO()
    torch.export.save(torch.export.export(Plain().eval(), (torch.zeros(4, 3),)), file)
    with zipfile.ZipFile(file) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def packed(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, body in entries.items():
            archive.writestr(f"m/{name}", body)
    return file.getvalue()


def read(content: bytes) -> None:
    _, program = _pt2_archive.vet(content, "m.pt2")
    _pt2_archive.only_input(program, "m.pt2")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


def mutated(program: Any, draw: random.Random) -> Any:
    """The program with one value replaced by another type, or left out."""
    program = copy.deepcopy(program)
    path = draw.choice(list(places(program)))
    parent = program
    for key in path[:-1]:
        parent = parent[key]
    if draw.random() < 0.3:
        del parent[path[-1]]
    else:
        parent[path[-1]] = draw.choice([None, [], {}, 1, -1, "x", True, 1e300, [[]], {"a": 1}, 10**400])
    return program


def fuzz(entries: dict[str, bytes], seeds: range) -> None:
    program = json.loads(entries[PROGRAM])
    for seed in seeds:
        try:
            read(packed({**entries, PROGRAM: json.dumps(mutated(program, random.Random(seed))).encode()}))
        except DataError as error:
            assert str(error).startswith("m.pt2"), seed


def test_programs_of_another_form_are_refused(entries: dict[str, bytes]) -> None:
    fuzz(entries, range(150))


@pytest.mark.slow
def test_many_programs_of_another_form_are_refused(entries: dict[str, bytes]) -> None:
    fuzz(entries, range(1000, 4000))


@pytest.mark.parametrize("depth", [400, 900, 2000, 100_000])
@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}")])
def test_programs_of_any_depth_are_refused(entries: dict[str, bytes], depth: int, brackets: tuple[str, str]) -> None:
    nested = brackets[0] * depth + "1" + brackets[1] * depth
    with pytest.raises(DataError, match=r"m\.pt2"):
        read(packed({**entries, PROGRAM: f'{{"a": {nested}}}'.encode()}))


def test_archives_that_unpack_to_more_than_they_hold_are_refused(entries: dict[str, bytes]) -> None:
    bomb = {**entries, **{f"data/weights/weight_{number}": b"\0" * 2**23 for number in range(9)}}
    with pytest.raises(DataError, match=r"it unpacks to 75,\d{3},\d{3} bytes; expected at most 67,108,864"):
        read(packed(bomb, zipfile.ZIP_DEFLATED))


def test_stored_entries_that_share_their_bytes_are_refused(entries: dict[str, bytes]) -> None:
    """Each entry says that it reaches over all that follow it: a file of megabytes would be read as gigabytes."""
    content = packed({**entries, **{f"data/weights/weight_{number}": b"\0" * 1000 for number in range(2, 60)}})
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        directory = content[archive.start_dir :]
        sizes = [entry.file_size for entry in archive.infolist()]
    assert sizes[-1] == 1000
    old, new = (2 * (1000).to_bytes(4, "little")), (2 * (50_000).to_bytes(4, "little"))
    lying = content[: -len(directory)] + directory.replace(old, new)
    with pytest.raises(DataError, match=r"its entries say that they hold 2,9\d{2},\d{3} bytes, in a file of"):
        read(lying)


@pytest.mark.usefixtures("models_in_this_process")
def test_a_model_that_asks_for_batches_beyond_memory_is_refused(tmp_path: Path, entries: dict[str, bytes]) -> None:
    program = json.loads(entries[PROGRAM])
    for value in program["graph_module"]["graph"]["tensor_values"].values():
        for size in value["sizes"]:
            if size.get("as_int") == 4:
                size["as_int"] = files.machine()
    (tmp_path / "m.pt2").write_bytes(packed({**entries, PROGRAM: json.dumps(program).encode()}))
    with pytest.raises(DataError, match=r"batches of exactly [\d,]+ records, .* too much for"):
        plugins.build("audit.subjects", {"kind": "torch_export", "path": str(tmp_path / "m.pt2")}).logits(INPUTS)


@pytest.mark.slow
def test_a_program_runs_in_a_process_of_its_own(tmp_path: Path, entries: dict[str, bytes], monkeypatch: Any) -> None:
    """One real process: confined, right, and a batch that it cannot take is a sentence after which it continues."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    (tmp_path / "m.pt2").write_bytes(packed(entries))
    with watched(tmp_path / "scratch"):
        target = plugins.build("audit.subjects", {"kind": "torch_export", "path": str(tmp_path / "m.pt2")})
        with pytest.raises(DataError, match="cannot be run on a batch of shape"):
            target.logits(np.ones((5, 7), np.float32))
        result = target.logits(INPUTS)
    assert "no growing files" in target._model.limits
    weights = [np.frombuffer(entries[f"data/weights/weight_{number}"], np.float32) for number in range(2)]
    weight, bias = sorted(weights, key=len, reverse=True)
    np.testing.assert_allclose(result, INPUTS @ weight.reshape(2, 3).T + bias, rtol=1e-5)
