"""Benchmarks, which no test runs, call what is there: a name that changed in the packages has changed in them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
UNKNOWN = re.compile(r'error: (?:"\w+"|Module "[\w.]+") has no attribute .*|error: Unexpected keyword argument .*')


@pytest.mark.slow
def test_benchmarks_name_nothing_that_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "--no-error-summary", "benchmarks"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert "benchmarks" in answer, answer
    assert [line for line in answer.splitlines() if UNKNOWN.search(line)] == []
