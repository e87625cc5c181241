"""A part of the audit of docs/use/scale.md: records mapped from a file, the driver killed, constants measured.

    python benchmarks/scale.py [--models 1000] [--records 100000] [--canaries 10000] [--workers 2] [--kills 1] [--ray]

An MLP of 64-64-10 with DP-SGD, compiled, batch 1,024, ten epochs; each canary is in each model by a coin. The driver is killed
`kills` times, when equal shares of the jobs are stored, and resumed to its report; with `--ray` the workers are nodes of a Ray
cluster on this machine. Prints JSON; ends with the exit code of the last run: 0 if the report's claim could be contradicted.
CPU times are of all processes. Memory: the most that was resident, with pages of mapped files that the system takes back,
the most of its own, and the most of all processes together, where a shared page counts once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

FEATURES, CLASSES, BATCH, EPOCHS, PER_JOB = 64, 10, 1024, 10, 25
_POLL_SECONDS = 1.0  # a look at the shared pages of twenty processes takes some hundredths of a second
_MARK = "SCALE_BENCHMARK"
Usage = tuple[float, int, int, int]
"""CPU seconds, largest resident MB, MB of a process' own memory at one look, and its share of the memory of all."""


def write_records(folder: Path, count: int) -> None:
    """Ten overlapping clouds of real numbers, written some records at a time."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(CLASSES, FEATURES))
    labels = random.integers(0, CLASSES, count)
    file = np.lib.format.open_memmap(folder / "x.npy", mode="w+", dtype=np.float32, shape=(count, FEATURES))
    for start in range(0, count, 10_000):
        part = labels[start : start + 10_000]
        file[start : start + len(part)] = centres[part] + 2.0 * random.normal(size=(len(part), FEATURES))
    file.flush()
    np.save(folder / "y.npy", labels)


def write_config(folder: Path, options: argparse.Namespace) -> Path:
    """The audit as a config; one target, all other models are its references."""
    data = {"kind": "npy", "path": "x.npy", "labels": "y.npy", "root": str(folder), "test": 1000}
    game = {
        "name": "black-box",
        "access": "final_model",
        "canaries": "held_out",
        "count": options.canaries,
        "runs": 1,
        "references": options.models - 1,
        "scorers": ["lira"],
        "estimators": ["one_run"],
    }
    workers = {"kind": "ray"} if options.ray else {"kind": "processes", "workers": options.workers}
    config = {
        "version": 1,
        "name": "scale",
        "delta": 1e-5,
        "data": {**data, "train": options.records - options.canaries, "pool": options.canaries},
        "model": {"kind": "mlp", "hidden": [64]},
        "training": {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": BATCH, "epochs": EPOCHS},
        "mechanisms": [
            {"name": "dp-sgd", "kind": "dp_sgd", "target_epsilon": 4, "trainer": {"kind": "dpsgd", "compile": "on"}}
        ],
        "games": [game],
        "accountants": ["pld"],
        "execution": {**workers, "models_per_job": PER_JOB},
        "output": {"formats": ["json"]},
    }
    path = folder / "scale.yaml"
    path.write_text(json.dumps(config))  # JSON is YAML
    return path


def run(config: Path, output: Path, *, kill_at: int | None) -> dict[str, Any]:
    """The costs of the audit, begun or resumed, to its end or until `kill_at` jobs are stored and its driver is killed."""
    command = [sys.executable, "-m", "audit", "run", str(config), "-o", str(output), "--quiet", "--resume"]
    started = time.perf_counter()
    before = processes()  # of a Ray cluster
    largest: dict[int, Usage] = {}
    together = 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(_POLL_SECONDS)
        together = max(together, add_largest(largest, processes()))
        if kill_at is not None and stored(output) >= kill_at:
            process.send_signal(signal.SIGKILL)  # the driver alone: its workers have to notice
            process.wait()
    seconds = time.perf_counter() - started
    while not before and (workers := processes()):
        together = max(together, add_largest(largest, workers))
        time.sleep(_POLL_SECONDS)
    driver = largest.pop(process.pid, (0.0, 0, 0, 0))
    cpu = sum(row[0] - before[number][0] if number in before else row[0] for number, row in largest.items())
    others = list(largest.values()) or [driver]
    return {
        "exit": process.returncode,
        "wall seconds": round(seconds, 1),
        "seconds until the last worker was gone": None if before else round(time.perf_counter() - started, 1),
        "CPU seconds, driver and all others": [round(driver[0], 1), round(cpu, 1)],
        "largest resident MB, driver and another": [driver[1], max(row[1] for row in others)],
        "largest MB of its own, driver and another": [driver[2], max(row[2] for row in others)],
        "largest MB of all processes together": together,
        "jobs stored": stored(output),
    }


def add_largest(largest: dict[int, Usage], measured: dict[int, Usage]) -> int:
    """Keeps the largest figures of each process, as one that is ending has given its memory back; MB of all now."""
    for number, row in measured.items():
        before = largest.get(number, row)
        largest[number] = (max(before[0], row[0]), max(before[1], row[1]), max(before[2], row[2]), row[3])
    return sum(row[3] for row in measured.values())


def processes() -> dict[int, Usage]:
    """What each living process that this one started, or that one of those started, holds and has used, by its number."""
    result = {}
    mark = f"{_MARK}={os.getpid()}".encode()
    for folder in Path("/proc").iterdir():
        try:
            if not folder.name.isdigit() or mark not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            lines = [*(folder / "status").read_text().splitlines(), *(folder / "smaps_rollup").read_text().splitlines()]
            sizes = {line.split(":")[0]: int(line.split()[1]) >> 10 for line in lines if line.endswith(" kB")}
            cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            result[int(folder.name)] = (cpu, sizes.get("VmHWM", 0), sizes.get("RssAnon", 0), sizes.get("Pss", 0))
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it ended between two looks, or is another's
            continue
    return result


@contextlib.contextmanager
def cluster(nodes: int) -> Iterator[None]:
    """A Ray cluster of this machine: `nodes` with a place for one job each, and a head without."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(nodes):
        made.add_node(num_cpus=1)
    made.wait_for_nodes()
    os.environ["RAY_ADDRESS"] = made.address
    try:
        yield
    finally:
        made.shutdown()


def stored(output: Path) -> int:
    """Number of finished jobs of a run; its folder is called `.partial` if it has not ended."""
    folders = (output, output.with_name(f"{output.name}.partial"))
    return sum(len(list((folder / "models").glob("*.safetensors"))) for folder in folders)


def folder_size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("models", 1000), ("records", 100_000), ("canaries", 10_000), ("workers", 2), ("kills", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    os.environ[_MARK] = str(os.getpid())  # processes inherit it; this one is not counted
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as name,
        cluster(options.workers) if options.ray else contextlib.nullcontext(),
    ):
        folder = Path(name)
        write_records(folder, options.records + 1000)
        config, output = write_config(folder, options), folder / "out"
        jobs = -(-options.models // PER_JOB)
        shares = [max(1, jobs * (kill + 1) // (options.kills + 1)) for kill in range(options.kills)]
        killed = [run(config, output, kill_at=share) for share in shares]
        resumed = run(config, output, kill_at=None)
        print(
            json.dumps(
                {
                    "models": options.models,
                    "records": options.records,
                    "canaries": options.canaries,
                    "steps of a model": EPOCHS * options.records // BATCH,
                    "killed": killed,
                    "resumed": resumed,
                    "records on disk, MB": (folder / "x.npy").stat().st_size >> 20,
                    "run on disk, MB": folder_size(output) >> 20,
                },
                indent=1,
            )
        )
    sys.exit(resumed["exit"])


if __name__ == "__main__":
    main()
