"""Random command lines, data files and YAML bombs: an exit code, a message, an end, nothing read or written outside."""

from __future__ import annotations

import io
import json
import random
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from audit.cli.app import answer, app
from tests.cli.alarm import limited
from tests.subjects.watcher import watched
from tests.tiny import CONFIG

SECONDS = 60  # of one case on a busy machine; alone none takes 20
MOST_MEMORY = 2**31
VALUES = (
    *(
        "",
        "0",
        "-1",
        "1",
        "1e308",
        "nan",
        "inf",
        "x",
        "true",
        "null",
        "[]",
        "{}",
        "[1",
        '{"a": 1}',
        "a=b",
        "--",
        "-",
        "é\u202e",
    ),
    *("1,2,3", "os:system", "json:loads", "%s", "{0}", "$HOME", "../..", "/", ".", "secret.txt", "a.csv", "a.npz", "tiny.yaml"),
    *(
        "here",
        "missing.npz",
        "a.csv/b",
        "\udcff",
        "x" * 300,
        "99999999999999999999",
        "0x10",
        "1_000",
        "2026-01-01",
        "en",
        "json",
    ),
)
LEFT_OUT = ("endpoint", "flower", "zoo", "doctor", "completion", "page")
"""They ask a server, start clients, or run for minutes what they ship."""
QUICK = {"run": ["--dry-run"], "scores": ["--certificates", "0"], "fuzz": ["--seconds", "1"]}


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in getattr(group, "commands", {}).items():
        if name not in LEFT_OUT:
            yield from commands(command, (*path, name))
    if not hasattr(group, "commands"):
        yield path, group


COMMANDS = sorted(commands(typer.main.get_command(app)), key=lambda pair: pair[0])


def command_line(draw: random.Random) -> list[str]:
    path, command = draw.choice(COMMANDS)
    words = [*path, *QUICK.get(path[-1], [])]
    for parameter in command.params:
        if parameter.param_type_name == "argument" and draw.random() < 0.9:
            words.append(draw.choice(VALUES))
    options = [parameter for parameter in command.params if parameter.param_type_name == "option" and parameter.name != "help"]
    for option in draw.sample(options, min(len(options), draw.randint(0, 4))):
        words += [draw.choice(option.opts), *([] if option.is_flag else [draw.choice(VALUES)])]
    return words


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with few files, the only one in which anything may be written."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "tiny.yaml").write_text(CONFIG)
    (folder / "a.csv").write_text("score,member\n" + "".join(f"{number},{number % 2}\n" for number in range(40)))
    np.savez(folder / "a.npz", x=np.zeros((20, 4), np.float32), y=np.arange(20) % 2)
    (folder / "secret.txt").write_text("never to be shown: 7f3a")
    (tmp_path / "outside.env").write_text("never to be shown: 7f3a")
    monkeypatch.chdir(folder)
    return folder


OPENED: list[str] = []
WATCHING: list[bool] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if WATCHING and event == "open" and isinstance(arguments[0], str) and arguments[0].endswith(("secret.txt", "outside.env")):
        OPENED.append(arguments[0])


sys.addaudithook(_note)


@contextmanager
def reads_nothing_else(words: list[str]) -> Iterator[None]:
    """A scope in which a file is only opened if its name is among the words."""
    del OPENED[:]
    WATCHING.append(True)
    try:
        yield
    finally:
        WATCHING.pop()
    assert "secret.txt" in " ".join(words) or not OPENED, f"{words} reads {OPENED}"


def holds(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """The exit code of a command that ends soon, shows no traceback and touches nothing outside."""
    with watched(folder), reads_nothing_else(words), limited(SECONDS):
        code = answer(words)
    text = "".join(capsys.readouterr())
    assert code in (0, 1, 2, 3, 4), f"exit {code} of {words}: {text}"
    assert "Traceback" not in text and "internal error" not in text, f"{words}: {text}"
    assert code != 2 or text.strip(), f"{words} is refused without a word"
    return code


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_random_command_lines(here: Path, capsys: pytest.CaptureFixture[str], block: int) -> None:
    for seed in range(50 * block, 50 * (block + 1)):
        holds(command_line(random.Random(seed)), here, capsys)


def peak_memory() -> int:
    """Bytes, of this process or of its largest child."""
    return 1024 * max(resource.getrusage(kind).ru_maxrss for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _npy(shape: str, kind: str = "<f4", order: str = "False") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(64)


def _npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def _safetensors(header: Any) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(64)


FILES: dict[str, Callable[[], bytes]] = {
    "huge.npy": lambda: _npy("(1099511627776, 4)"),
    "negative.npy": lambda: _npy("(-1, 4)"),
    "object.npy": lambda: _npy("(2, 2)", "|O"),
    "deep.npy": lambda: _npy("(" * 200 + ")" * 200),
    "code.npy": lambda: _npy("__import__('os').getcwd()"),
    "void.npy": lambda: _npy("(16,)", "|V0"),
    "bomb.npz": lambda: _npz(x=np.zeros((2**26, 4), np.uint8), y=np.zeros(2**26, np.uint8)),
    "plain.npz": lambda: _npz(x=np.zeros((20, 4), np.float32), y=np.arange(20) % 2),
    "huge.safetensors": lambda: _safetensors({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}),
    "overlap.safetensors": lambda: _safetensors(
        {key: {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]} for key in "ab"}
    ),
    "deep.json": lambda: b"[" * 100_000,
    "wide.csv": lambda: b"score,member\n" + b",".join([b"1"] * 50_000) + b"\n",
    "nul.csv": lambda: b"score,member\n\0\0\0,1\n1,0\n",
    "quotes.csv": lambda: b'score,member\n"' + b'""' * 100_000 + b'",1\n',
}


def data_file(draw: random.Random, folder: Path) -> Path:
    """One of the files above, half of them with bytes flipped or cut."""
    name = draw.choice(sorted(FILES))
    content = bytearray(FILES[name]())
    if draw.random() < 0.5 and content:
        for _ in range(draw.randint(1, 6)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        content = content[: draw.randint(0, len(content))] if draw.random() < 0.4 else content
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.slow
@pytest.mark.confined
@pytest.mark.parametrize("block", range(4))
def test_random_data_files(here: Path, capsys: pytest.CaptureFixture[str], block: int) -> None:
    before = peak_memory()
    for seed in range(3000 + 25 * block, 3000 + 25 * (block + 1)):
        draw = random.Random(seed)
        path = str(data_file(draw, here))
        data = f"data={{kind: {'npy' if path.endswith('npy') else 'npz'}, path: '{path}', train: 5, pool: 5, test: 5}}"
        words = draw.choice(
            [
                ["scores", path, "--certificates", "0"],
                ["run", "tiny.yaml", "--dry-run", "--set", data],
                ["model", "--target", path, "--members", path, "--nonmembers", "a.npz"],
                ["report", path],
                ["verify", path],
            ]
        )
        holds(words, here, capsys)
    assert peak_memory() < max(MOST_MEMORY, before + 1)  # a worker keeps the peak of the tests it ran before


BOMBS = {
    "aliases": "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + step)}: &{chr(98 + step)} [{', '.join([f'*{chr(97 + step)}'] * 9)}]\n" for step in range(20)
    ),
    "merges": "a: &a {x: 1}\n" + "".join(f"b{step}: &b{step} {{<<: [*a, *a]}}\n" for step in range(50)),
    "depth": "a: " + "[" * 5000,
    "depth of mappings": "".join(f"{' ' * step}a:\n" for step in range(3000)),
    "digits": "seed: " + "9" * 100_000,
    "base 60": "seed: " + ":".join(["59"] * 5000),
    "a key of a megabyte": "? " + "x" * 2**20 + "\n: 1\n",
    "tags": "a: !!python/object/apply:os.system [id]\n",
    "itself": "a: &a [*a]\n",
    "many documents": "---\na: 1\n" * 20_000,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOMBS)
def test_yaml_bombs_are_refused(here: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    (here / "bomb.yaml").write_text(BOMBS[kind])
    assert holds(["run", "bomb.yaml", "--dry-run"], here, capsys) == 2
