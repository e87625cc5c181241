"""What the quickstart reaches: `python benchmarks/quickstart.py [SEEDS]`.

One whole `audit run quickstart` as a process (wall seconds, peak memory), then the same audit without
rendering over SEEDS seeds (default 20): every bound beside the claim that the accountant states.
"""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from audit.config import load
from audit.core.lower_bounds import read_epsilon
from audit.core.results import MechanismResult
from audit.execution.store import Store
from audit.experiment.line import assemble, run


def whole_process() -> None:
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        line = [sys.executable, "-m", "audit", "run", "quickstart", "-q", "-o", f"{folder}/run"]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"audit run quickstart: exit code {done.returncode}, {seconds:.1f} s wall, peak memory {peak:.0f} MiB")
    print(done.stdout)


def audited(seed: int) -> tuple[MechanismResult, ...]:
    resolved = load("quickstart", [f"seed={seed}"])
    with tempfile.TemporaryDirectory() as folder:
        store = Store.start(Path(folder) / "run", resolved.sha256)
        results, _ = run.run(assemble.assemble(resolved.config), store)
    return results


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, numpy {np.__version__}")
    whole_process()
    above = total = 0
    for seed in range(seeds):
        for result in audited(seed):
            claim = min((item.epsilon for item in result.claims), default=np.inf)
            attacks = [(game.name, attack) for game in result.games for attack in game.attacks]
            bounds = [(name, attack.scorer, bound) for name, attack in attacks for bound in attack.bounds]
            above += sum(read_epsilon(bound) > claim for _, _, bound in bounds)
            total += len(bounds)
            listed = ", ".join(f"{game}/{scorer}/{bound.estimator} {read_epsilon(bound):.2f}" for game, scorer, bound in bounds)
            outcome = result.outcome.value if result.outcome else "no claim"
            print(f"seed {seed} {result.name} (claim {claim:.2f}, {outcome}): {listed}", flush=True)
    print(f"{above} of {total} bounds lie above the claim over {seeds} seeds")


if __name__ == "__main__":
    main()
