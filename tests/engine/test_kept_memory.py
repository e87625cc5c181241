"""Steps of a training ask the system for no memory that they gave back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit.engine.device import keep_freed_memory

COUNT_FAULTS = """
import resource
import torch
from audit.engine.device import keep_freed_memory

print(keep_freed_memory())
def step():
    tensors = [torch.ones(400_000) for _ in range(20)]  # 32 MB, which glibc by default gives back to the system
step(), step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 5)
"""


def faults_per_step(**variables: str) -> tuple[str, float]:
    """Return whether memory is kept, and pages of 4 kB that the system clears per step, of 7,800 in use."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | variables
    command = [sys.executable, "-c", COUNT_FAULTS]
    root = Path(__file__).parents[2]
    answer = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True).stdout.split()
    return answer[0], float(answer[1])


@pytest.mark.slow
@pytest.mark.skipif(not keep_freed_memory(), reason="the allocator is not glibc's, or its thresholds are set")
def test_memory_of_a_step_is_kept_unless_the_user_says_other() -> None:
    kept, faults = faults_per_step()
    assert kept == "True" and faults < 100
    kept, faults = faults_per_step(MALLOC_TRIM_THRESHOLD_="131072")
    assert kept == "False" and faults > 1000
