"""The compiled sums stay inside their memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit.engine.compile_c import compiler

pytestmark = pytest.mark.slow


def sanitisers(found: list[str]) -> list[str]:
    """Files of the compiler's checking libraries; empty if it has none."""
    files = [
        subprocess.run([*found, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return files if all(os.path.isabs(file) for file in files) else []


def test_random_chains_under_address_and_undefined_behaviour_checks() -> None:
    result = compiler()
    libraries = sanitisers(result) if result else []
    if not libraries:
        pytest.skip("needs a C compiler with address and undefined-behaviour sanitisers")
    settings = {"LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": "detect_leaks=0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.sanitised_chains"],
        env=os.environ | settings,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    sums, clients = map(float, done.stdout.split())
    assert sums < 1e-5
    assert clients < 1e-4  # of the way that a few steps went
