"""A hundredth of the audit of docs/use/scale.md: records mapped from a file, the driver killed, constants measured.

    python benchmarks/scale.py [--models 1000] [--records 100000] [--canaries 10000] [--workers 2] [--folder FOLDER]

An MLP of 64-64-10 with DP-SGD, compiled, batch 1,024, ten epochs; each canary is in each model by a coin. When half of the jobs
are stored the driver is killed, then the run is resumed to its report. Prints JSON; CPU times are of all processes. Memory is
given twice: the most that was resident, with pages of mapped files that the system takes back, and its own most.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

FEATURES, CLASSES, BATCH, EPOCHS, PER_JOB = 64, 10, 1024, 10, 25
_POLL_SECONDS = 0.2
Usage = tuple[float, int, int]
"""CPU seconds, largest resident MB, and MB of a process' own memory at one look."""


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
    config = {
        "version": 1,
        "name": "scale",
        "delta": 1e-5,
        "data": {**data, "train": options.records - options.canaries, "pool": options.canaries},
        "model": {"kind": "mlp", "hidden": [64]},
        "training": {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": BATCH, "epochs": EPOCHS},
        "mechanisms": [
            {"name": "dp-sgd", "kind": "dp_sgd", "target_epsilon": 8, "trainer": {"kind": "dpsgd", "compile": "on"}}
        ],
        "games": [game],
        "accountants": ["pld"],
        "execution": {"kind": "processes", "workers": options.workers, "models_per_job": PER_JOB},
        "output": {"formats": ["json"]},
    }
    path = folder / "scale.yaml"
    path.write_text(json.dumps(config))  # JSON is YAML
    return path


def run(config: Path, output: Path, *, kill_at: int | None) -> dict[str, Any]:
    """Run the audit, killed when `kill_at` jobs are stored, or resume it to its end if that is None; returns the costs."""
    resume = ["--resume"] if kill_at is None else []
    command = [sys.executable, "-m", "audit", "run", str(config), "-o", str(output), "--quiet", *resume]
    started = time.perf_counter()
    processes: dict[int, Usage] = {}
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(_POLL_SECONDS)
        add_largest(processes, session(process.pid))
        if kill_at is not None and stored(output) >= kill_at:
            process.send_signal(signal.SIGKILL)  # the driver alone: its workers have to notice
            process.wait()
    seconds = time.perf_counter() - started
    while workers := session(process.pid):
        add_largest(processes, workers)
        time.sleep(_POLL_SECONDS)
    driver = processes.pop(process.pid, (0.0, 0, 0))
    return {
        "exit": process.returncode,
        "wall seconds": round(seconds, 1),
        "seconds until the last worker was gone": round(time.perf_counter() - started, 1),
        "CPU seconds, driver and workers": [round(driver[0], 1), round(sum(cpu for cpu, _, _ in processes.values()), 1)],
        "largest resident MB, driver and a worker": [driver[1], max((size for _, size, _ in processes.values()), default=0)],
        "largest MB of its own, driver and a worker": [driver[2], max((size for _, _, size in processes.values()), default=0)],
        "jobs stored": stored(output),
    }


def add_largest(processes: dict[int, Usage], measured: dict[int, Usage]) -> None:
    """Keeps the largest figures of each process: one that is ending has given its memory back already."""
    for number, (seconds, size, unshared) in measured.items():
        before = processes.get(number, (0.0, 0, 0))
        processes[number] = (max(before[0], seconds), max(before[1], size), max(before[2], unshared))


def session(leader: int) -> dict[int, Usage]:
    """CPU seconds, largest resident MB and its own MB of each process of a session that lives, by its number."""
    result = {}
    for folder in Path("/proc").iterdir():
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split() if folder.name.isdigit() else []
            if len(fields) > 12 and int(fields[3]) == leader and fields[0] != "Z":
                lines = (folder / "status").read_text().splitlines()
                sizes = {line.split(":")[0]: int(line.split()[1]) >> 10 for line in lines if line.endswith(" kB")}
                ticks = int(fields[11]) + int(fields[12])
                cpu = ticks / os.sysconf("SC_CLK_TCK")
                result[int(folder.name)] = (cpu, sizes.get("VmHWM", 0), sizes.get("RssAnon", 0))
        except (FileNotFoundError, ProcessLookupError):  # it ended between two looks
            continue
    return result


def stored(output: Path) -> int:
    """Number of finished jobs of a run; its folder is called `.partial` if it has not ended."""
    folders = (output, output.with_name(f"{output.name}.partial"))
    return sum(len(list((folder / "models").glob("*.safetensors"))) for folder in folders)


def folder_size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("models", 1000), ("records", 100_000), ("canaries", 10_000), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write_records(folder, options.records + 1000)
        config, output = write_config(folder, options), folder / "out"
        jobs = -(-options.models // PER_JOB)
        killed = run(config, output, kill_at=max(1, jobs // 2))
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


if __name__ == "__main__":
    main()
