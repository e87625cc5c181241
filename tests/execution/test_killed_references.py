"""`audit model --train` killed at random moments leaves no process and no half of a report, and continues to the same bytes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.execution.test_random_kills import nobody_is_left

OWN = """
import torch
from torch import nn


def fit(records, seed):
    torch.manual_seed(seed)
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(torch.as_tensor(records[0])), torch.as_tensor(records[1])).backward()
        optimizer.step()
    return net
"""
KILLS = 5


@pytest.mark.slow
def test_reference_trainings_survive_kills(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    stream, draw = np.random.default_rng(0), random.Random(0)
    for name in ("members", "nonmembers"):
        x, y = stream.normal(size=(100, 4)).astype(np.float32), stream.integers(0, 2, 100)
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    place = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", str(Path.cwd()))])
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1800000000", "PYTHONPATH": place}

    def start(output: str) -> subprocess.Popen[bytes]:
        words = ["model", "--train", "own:fit", "--members", "members.npz", "--nonmembers", "nonmembers.npz", "--runs", "4"]
        command = [sys.executable, "-m", "audit", *words, "--workers", "2", "-o", output]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, start_new_session=True)

    started = time.monotonic()
    assert start("whole").wait() in (0, 1, 3)
    seconds = time.monotonic() - started
    whole = (tmp_path / "whole" / "scores.parquet").read_bytes()
    if (tmp_path / "references").exists():
        shutil.rmtree(tmp_path / "references")
    history = []
    for _ in range(KILLS):
        process = start("out")
        time.sleep(draw.uniform(0.1, 0.9) * seconds)
        process.send_signal(number := draw.choice((signal.SIGKILL, signal.SIGTERM)))
        _, message = process.communicate(timeout=120)
        nobody_is_left(process.pid)
        history.append((number.name, process.returncode, sorted(path.name for path in tmp_path.iterdir())))
        assert b"Traceback" not in message, (history, message.decode())
        if (tmp_path / "out").exists():
            assert (tmp_path / "out" / "report.json").is_file() and (tmp_path / "out" / "SHA256SUMS").is_file(), history
            shutil.rmtree(tmp_path / "out")
    last = start("out")
    _, message = last.communicate()
    assert last.returncode in (0, 1, 3), (history, message.decode())
    assert (tmp_path / "out" / "scores.parquet").read_bytes() == whole, history
