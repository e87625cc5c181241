"""Runs killed at random moments, with folders damaged in between, end with the bytes of a run left alone."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tiny import CONFIG

KILLS = {"serial": 3, "processes": 1}  # of one chain
TIMELESS = ("report.json", "scores.parquet", "junit.xml")


def command(folder: Path, kind: str, seed: int, *options: str) -> list[str]:
    changes = ["output.formats=[json, junit]", f"execution={{kind: {kind}, models_per_job: 1}}", f"seed={seed}"]
    words = [word for change in changes for word in ("--set", change)]
    key = folder.parent / "key"
    key.write_text("ab" * 16)
    run = [sys.executable, "-m", "audit", "run", str(folder.parent / "tiny.yaml"), "-q"]
    return [*run, "-o", str(folder), "--record-key", str(key), *words, *options]


def start(words: list[str]) -> subprocess.Popen[bytes]:
    """A run in its own process group, so that no worker outlives the test."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1800000000"}
    return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)


def truncated(path: Path, draw: random.Random, files: list[Path]) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: draw.randrange(len(content) + 1)])


def emptied(path: Path, draw: random.Random, files: list[Path]) -> None:
    path.write_bytes(b"")


def flipped(path: Path, draw: random.Random, files: list[Path]) -> None:
    content = bytearray(path.read_bytes() or b"x")
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def swapped(path: Path, draw: random.Random, files: list[Path]) -> None:
    """Two files of one run, or of two runs, instead of each other."""
    path.write_bytes(draw.choice(files).read_bytes())


def removed(path: Path, draw: random.Random, files: list[Path]) -> None:
    path.unlink()


DAMAGES: tuple[Callable[[Path, random.Random, list[Path]], None], ...] = (truncated, emptied, flipped, swapped, removed)


def values(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


@pytest.mark.parametrize(
    "kind", [pytest.param("serial", marks=pytest.mark.slow), pytest.param("processes", marks=pytest.mark.calibration)]
)
def test_kills_and_damage_change_no_byte(tmp_path: Path, kind: str) -> None:
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    draw = random.Random(kind)
    started = time.monotonic()
    assert start(command(tmp_path / "whole", kind, 5)).wait() in (0, 1, 3)
    seconds = time.monotonic() - started
    assert start(command(tmp_path / "other", kind, 6)).wait() in (0, 1, 3)
    foreign = values(tmp_path / "other")
    folder, unfinished, history = tmp_path / "run", tmp_path / "run.partial", []
    for _ in range(KILLS[kind]):
        process = start(command(folder, kind, 5, *["--resume"] * unfinished.exists()))
        time.sleep(draw.uniform(0.3, 1.1) * seconds)
        process.send_signal(number := draw.choice((signal.SIGKILL, signal.SIGTERM)))
        _, message = process.communicate(timeout=60)
        history.append((signal.Signals(number).name, process.returncode))
        assert b"Traceback" not in message, message.decode()
        nobody_is_left(process.pid)
        if folder.exists():
            shutil.rmtree(folder)  # it was quicker than the kill: once more from its start
        for path in draw.sample(values(unfinished), min(2, len(values(unfinished)))):
            damage = draw.choice(DAMAGES)
            damage(path, draw, foreign + values(unfinished))
            history.append((damage.__name__, path.name))
    last = start(command(folder, kind, 5, *["--resume"] * unfinished.exists()))
    _, message = last.communicate()
    assert last.returncode in (0, 1, 3), (history, message.decode())
    for name in TIMELESS:
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), (name, history)
    assert [path.read_bytes() for path in values(folder)] == [path.read_bytes() for path in values(tmp_path / "whole")], history


def nobody_is_left(group: int) -> None:
    """Workers end soon after the process that started them, whatever ended it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        if time.monotonic() > deadline:
            os.killpg(group, signal.SIGKILL)
            raise AssertionError("workers outlive the audit that started them")
        time.sleep(0.2)
