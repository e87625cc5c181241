"""The exit code of a command whose native code may end its process: never one that says something of a claim."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from audit.cli import child
from audit.core.errors import WorkerLost

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from audit.cli import app, child

@app.app.command("work")
def work(kind: str, way: str) -> int:
    child.separate(kind)
    if way == "native":
        os._exit(1)
    if way == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "sleep":
        Path(sys.argv[1]).write_text(str(os.getpid()))
        time.sleep(60)
    print("worked")
    return int(way)

app.main(sys.argv[2:])
"""


def start(folder: Path, kind: str, way: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-c", PROGRAM, str(folder / "pid"), "work", kind, way]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("way", "code"), [("native", 4), ("killed", 4), ("3", 3), ("1", 1)])
def test_a_child_that_says_no_code_is_an_outage(way: str, code: int, tmp_path: Path) -> None:
    process = start(tmp_path, "ray", way)
    output, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    assert ("the process of the run was ended by" in error and "--resume" in error) == (code == WorkerLost.exit_code)
    assert output.count("worked") == way.isdigit()


def test_other_kinds_of_execution_have_no_child(tmp_path: Path) -> None:
    process = start(tmp_path, "serial", "native")
    process.communicate(timeout=60)
    assert process.returncode == 1  # this process itself ended so


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_reaches_the_child(number: signal.Signals, tmp_path: Path) -> None:
    process = start(tmp_path, "ray", "sleep")
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pid = int((tmp_path / "pid").read_text())
    assert pid != process.pid
    os.kill(process.pid, number)
    _, error = process.communicate(timeout=30)
    if number != signal.SIGKILL:
        assert process.returncode == child.STOPPED_BY + number
        assert f"stopped by {number.name}" in error
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
