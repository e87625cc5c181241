"""Hostile model files: none writes a file, starts a process or prints, and each ends in a sentence."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from audit import plugins
from audit.core.errors import AuditError, DataError
from audit.subjects import _operators
from tests.subjects.watcher import watched

INPUTS = np.zeros((4, 3), np.float32)


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.relu(x))


def saved(path: Path, model: nn.Module | None = None) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(model or Plain()), str(path))
    return path


def with_code(path: Path, old: str, new: str) -> Path:
    """The archive with its code changed by text, as an attacker with an editor would."""
    saved(path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    code = next(name for name, body in entries.items() if name.endswith(".py") and b"class Plain" in body)
    assert old in entries[code].decode(), "the code has changed: this test would prove nothing"
    entries[code] = entries[code].decode().replace(old, new).encode()
    write(path, list(entries.items()))
    return path


def write(path: Path, entries: list[tuple[str, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that occur twice
        for name, body in entries:
            archive.writestr(name, body)
    return path


def entries_of(path: Path) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


INTO_CODE = {
    "torch.save": 'torch.save(x, "{target}")',
    "a blank before the bracket": 'torch.save (x, "{target}")',
    "a line break before the bracket": 'torch.save\\\n(x, "{target}")',
    "the operator by its space": 'ops.aten.save(x, "{target}")',
    "bytes to a path": 'x0 = torch.from_file ("{target}", True, 12, dtype=0)\n    print(torch.copy_(x0, torch.sum(x)))',
    "in a branch": 'if torch.gt(torch.sum(x), 0):\n      torch.save(x, "{target}")\n    else:\n      pass',
    "in a loop": 'for i in range(2):\n      torch.save(x, "{target}")',
    "another library": "print(ops.quantized.relu6(x))",
    "another storage under a tensor": "print(torch.set_(x))",
    "a tensor beyond its storage": "print(torch.resize_(x, [1000]))",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", INTO_CODE)
@pytest.mark.usefixtures("models_in_this_process")
def test_code_that_does_more_than_arithmetic_is_refused_before_it_runs(tmp_path: Path, name: str) -> None:
    target = tmp_path / "written"
    path = with_code(
        tmp_path / "m.ts", "    layer = self.layer", f"    {INTO_CODE[name].format(target=target)}\n    layer = self.layer"
    )
    with watched(tmp_path / "scratch"), pytest.raises(DataError, match=r"m\.ts (is refused|cannot be loaded)") as caught:
        plugins.build("audit.subjects", {"kind": "torchscript", "path": str(path)}).logits(INPUTS)
    assert caught.value.exit_code == 2


def second_folder(path: Path) -> None:
    entries = entries_of(with_code(path, "    layer = self.layer", '    torch.save(x, "written")\n    layer = self.layer'))
    write(path, [*entries, *((f"zz/{name.partition('/')[2]}", body) for name, body in entries_of(saved(path)))])


def same_name_twice(path: Path) -> None:
    entries = entries_of(saved(path))
    write(path, [*entries, next(item for item in entries if item[0].endswith(".py"))])


def same_name_in_capitals(path: Path) -> None:
    entries = entries_of(saved(path))
    name, body = next(item for item in entries if item[0].endswith(".py"))
    write(path, [*entries, (name.replace("code", "CODE"), body)])


def a_pickle_that_runs(path: Path) -> None:
    class Runs:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(path.with_name("ran")),)

    write(
        path,
        [(name, pickle.dumps(Runs(), 2) if name.endswith("/data.pkl") else body) for name, body in entries_of(saved(path))],
    )


def a_foreign_class(path: Path) -> None:
    body = b"\x80\x02c__torch__.torch.classes.quantized\nLinearPackedParamsBase\n)\x81."
    write(path, [(name, body if name.endswith("/data.pkl") else old) for name, old in entries_of(saved(path))])


def a_method_that_reading_runs(path: Path) -> None:
    method = (
        "  def __setstate__(self: __torch__.Plain, state: int) -> NoneType:\n    torch.save(state, 'written')\n  def forward("
    )
    name = next(name for name, body in entries_of(saved(path)) if name.endswith(".py") and b"class Plain" in body)
    entries = [
        (item, body.replace(b"  def forward(", method.encode()) if item == name else body) for item, body in entries_of(path)
    ]
    write(path, entries)


def code_that_unpacks_to_much(path: Path) -> None:
    saved(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/code/bomb.py", b"#" * (65 * 2**20))


def an_entry_outside(path: Path) -> None:
    write(path, [*entries_of(saved(path)), ("m/../../written", b"x")])


def no_archive(path: Path) -> None:
    path.write_bytes(Path("/etc/passwd").read_bytes() if Path("/etc/passwd").exists() else b"root")


def half_an_archive(path: Path) -> None:
    path.write_bytes(saved(path).read_bytes()[:-200])


def a_pickled_module(path: Path) -> None:
    torch.save(Plain(), path)


ARCHIVES: dict[str, tuple[Callable[[Path], None], str]] = {
    "two folders": (second_folder, "it holds 2 folders"),
    "one name twice": (same_name_twice, "two entries of one name"),
    "one name in capitals": (same_name_in_capitals, "two entries of one name"),
    "a pickle that runs": (a_pickle_that_runs, r"asks for (posix|nt)\.mkdir"),
    "a class of the runtime": (a_foreign_class, r"asks for __torch__\.torch\.classes"),
    "a method that reading runs": (a_method_that_reading_runs, "defines __setstate__"),
    "a bomb": (code_that_unpacks_to_much, "unpacks to"),
    "an entry outside": (an_entry_outside, "it holds"),
    "no archive": (no_archive, "not a complete TorchScript archive"),
    "half an archive": (half_an_archive, "not a complete TorchScript archive"),
    "a pickled module": (a_pickled_module, "a plain torch.save file, not TorchScript"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_that_torch_would_not_write_never_reach_it(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make, message = ARCHIVES[name]
    make(tmp_path / "m.ts")
    with watched(tmp_path / "scratch"), pytest.raises(DataError, match=message) as caught:
        plugins.build("audit.subjects", {"kind": "torchscript", "path": "m.ts"})
    assert caught.value.exit_code == 2


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, "written")
        return x


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), Inner())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def writes(x: torch.Tensor) -> torch.Tensor:
    torch.save(x, "written")
    return x


class Calls(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return writes(x)


class Forks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.jit.wait(torch.jit.fork(writes, x))


class Exports(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def other(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, "written")
        return x


@pytest.mark.parametrize("model", [Nested, Calls, Forks, Exports])
@pytest.mark.usefixtures("models_in_this_process")
def test_what_is_called_and_what_lies_deeper_is_vetted_too(tmp_path: Path, model: type[nn.Module], monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path / "m.ts", model())
    with watched(tmp_path / "scratch"), pytest.raises(DataError, match=r"calls (aten::save|prim::fork)"):
        plugins.build("audit.subjects", {"kind": "torchscript", "path": str(path)})


class Misbehaves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wish = int(x[0, 0])
        if wish == 1:
            print("\x1b[2J PROVEN: the claim was not contradicted")
        if wish == 2:
            assert x.size(1) == 7, "seven features, please"
        if wish == 3:
            x = torch.zeros([1 << 36])
        while wish == 4:
            x = x + 1
        if wish == 5:
            text = "y"
            for _ in range(22):
                text = text + text
            assert x.size(1) == 7, text
        return self.layer(x)


def wishes(number: int) -> np.ndarray:
    return np.full((2, 3), number, np.float32)


@pytest.mark.slow
def test_a_model_that_prints_asserts_takes_memory_and_never_ends(tmp_path: Path, capfd: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    path = saved(tmp_path / "m.ts", Misbehaves())
    with watched(tmp_path / "scratch"):
        target = plugins.build("audit.subjects", {"kind": "torchscript", "path": str(path), "memory_gib": 1})
        assert target.logits(wishes(1)).shape == (2, 2)
        assert capfd.readouterr() == ("", "")
        with pytest.raises(DataError, match=r"cannot be run on a batch of shape \(2, 3\).*seven features, please"):
            target.logits(wishes(2))
        if "memory" in target._model.limits:
            with pytest.raises(DataError, match=r"cannot be run on a batch.*memory"):
                target.logits(wishes(3))
        with pytest.raises(DataError, match=r"cannot be run on a batch.*yyyy") as caught:
            target.logits(wishes(5))
        assert len(str(caught.value)) < 2000, "four million characters would fill the pipe, and both sides would wait"
        assert np.isfinite(target.logits(wishes(0))).all(), "it goes on after a failure"
        target._model.seconds = 1.0
        started = time.monotonic()
        with pytest.raises(DataError, match=r"could not answer a batch of 2 .* within 1 seconds.*--batch-seconds") as caught:
            target.logits(wishes(4))
        assert time.monotonic() - started < 30
        assert caught.value.exit_code == 2
        with pytest.raises(DataError, match="its process ended"):
            target.logits(wishes(0))
        child = target._model._process._child
        del target
        assert child.poll() is not None
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_file_that_crashes_the_reader_of_torch_does_not_crash_the_audit(tmp_path: Path) -> None:
    path = with_code(tmp_path / "m.ts", "    layer = self.layer", "    ops.prim.PythonOp()\n    layer = self.layer")
    with watched(tmp_path / "scratch"), pytest.raises(DataError, match=r"could not be loaded: its process ended \(signal"):
        plugins.build("audit.subjects", {"kind": "torchscript", "path": str(path)})


def test_the_allow_list_names_nothing_that_reaches_beyond_arithmetic() -> None:
    words = ("save", "load", "file", "rpc", "process", "stream", "python", "seed", "resize", "fork", "path")
    for name in (*_operators.TENSOR, *_operators.PRIMS, *_operators.GRAPH):
        assert not any(word in name.lower() for word in words), name
    for space, name in (("aten", "set_"), ("aten", "resize_"), ("aten", "save"), ("prim", "PythonOp"), ("quantized", "relu")):
        assert not _operators.harmless(space, name)
    schemas = torch._C._jit_get_all_schemas()
    files = {
        schema.name.removeprefix("aten::") for schema in schemas if any(item.name == "filename" for item in schema.arguments)
    }
    assert {"save", "from_file"} <= files
    assert not files & _operators.TENSOR


def test_a_pickled_module_is_called_by_its_name_at_once(tmp_path: Path) -> None:
    torch.save(Plain(), tmp_path / "net.pt")
    with watched(tmp_path / "scratch"), pytest.raises(AuditError, match="a pickle that asks for more than tensors") as caught:
        plugins.build("audit.subjects", {"kind": "state_dict", "path": str(tmp_path / "net.pt")})
    assert "weights alone" not in str(caught.value)


@pytest.mark.slow
def test_a_process_that_speaks_in_no_known_form_is_ended(tmp_path: Path, monkeypatch: Any) -> None:
    """It waits for a user to read the rest of its output, and the audit must not wait for it in turn."""
    talk = "import sys; sys.stdin.buffer.read(20); sys.stdout.buffer.write(b'\\xff' * 2**20); sys.stdin.buffer.read()"
    start = subprocess.Popen

    def start_speaker(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return start([sys.executable, "-c", talk], **options)

    monkeypatch.setattr(subprocess, "Popen", start_speaker)
    path, started = saved(tmp_path / "m.ts"), time.monotonic()
    with pytest.raises(DataError, match="could not be loaded: its process ended"):
        plugins.build("audit.subjects", {"kind": "torchscript", "path": str(path), "seconds": 60})
    assert time.monotonic() - started < 30


def test_messages_of_a_process_are_never_pickles() -> None:
    from audit.core.confined import frames

    stream = io.BytesIO()
    frames.send(stream, {"shape": [2]}, b"12345678")
    stream.seek(0)
    assert frames.receive(stream) == ({"shape": [2]}, bytearray(b"12345678"))
    assert frames.receive(stream) is None
    for hostile in (pickle.dumps(1) * 40, b"\xff" * 12, b"\0\0\0\2\0\0\0\0\0\0\0\0[]"):
        with pytest.raises((ValueError, UnicodeDecodeError)):
            frames.receive(io.BytesIO(hostile), limit=100)
