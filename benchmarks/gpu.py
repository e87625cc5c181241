"""The engine on a GPU: does it compute what a CPU computes, and how long does a step take?

    python benchmarks/gpu.py [--device cuda] [--out gpu.json]

Prints a table and writes JSON: milliseconds a step with and without privacy, examples a second, the cost of privacy, most
memory allocated, and the largest difference to the CPU's weights in double precision after a few steps with the same batches
and the same noise, both from counters; and a private step whose passes are CUDA graphs. Steps
are timed as the difference of a long and a short training, so that set-up does not count. Never run on a GPU yet.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.core.access import Access
from audit.core.data import Canaries, Dataset, Records
from audit.core.errors import AuditError
from audit.core.events import Repeated, dp_sgd, sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine.device import describe, find_device
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings

_LIMIT = 1e-6
_GRAPH_LIMIT = 1e-4  # single precision, eight steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One row of the table: a model, records of a shape, models together, the expected batch."""

    name: str
    model: Mapping[str, Any]
    shape: tuple[int, ...]
    models: int
    batch: int
    steps: int


PROBLEMS = (
    Problem(name="mlp", model={"kind": "mlp", "hidden": [64]}, shape=(64,), models=32, batch=128, steps=200),
    Problem(name="mlp-1000", model={"kind": "mlp", "hidden": [64]}, shape=(64,), models=1000, batch=128, steps=50),
    Problem(name="cnn", model={"kind": "cnn", "channels": [16, 32]}, shape=(3, 32, 32), models=16, batch=128, steps=50),
    Problem(
        name="wrn-16-4",
        model={"kind": "wide_resnet", "depth": 16, "widen": 4, "groups": 16},
        shape=(3, 32, 32),
        models=1,
        batch=1024,
        steps=5,
    ),
    Problem(
        name="vit",
        model={"kind": "vit", "patch": 4, "width": 192, "depth": 6, "heads": 6},
        shape=(3, 32, 32),
        models=1,
        batch=1024,
        steps=5,
    ),
)


def job_of(problem: Problem, mechanism: Repeated, device: str) -> TrainingJob:
    """Training of `problem` on random records, ten classes."""
    generator = np.random.default_rng(0)

    def records(count: int) -> Records:
        inputs = generator.normal(size=(count, *problem.shape)).astype(np.float32)
        return Records(inputs=inputs, labels=generator.integers(0, 10, count))

    pool = records(2)
    data = Dataset(
        name="random", source="drawn for a benchmark", sha256="0" * 64, classes=10, train=records(4 * problem.batch),
        pool=pool, test=records(2), pool_index=np.arange(2),
    )  # fmt: skip
    return TrainingJob(
        dataset=data,
        canaries=Canaries(kind="held_out", description="", records=pool),
        included=np.zeros((problem.models, 2), dtype=bool),
        seeds=tuple(Seed(0).child("model", index) for index in range(problem.models)),
        mechanism=mechanism,
        model=problem.model,
        optimizer={"kind": "sgd", "learning_rate": 0.1},
        access=Access.FINAL_WEIGHTS,
        device=device,
    )


def seconds_a_step(problem: Problem, mechanism: Repeated, device: str, settings: ScheduleSettings | None = None) -> float:
    """Seconds of one step of all models of `problem`: the difference of two trainings, over the steps between them."""
    times = []
    for steps in (2, 2 + problem.steps):
        job = job_of(problem, replace(mechanism, count=steps), device)
        begin = time.perf_counter()
        train(job, lambda _: None, settings)
        if find_device(device).type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return (times[1] - times[0]) / problem.steps


def disagreement(problem: Problem, device: str) -> float:
    """Largest difference of a weight trained on `device` to the CPU's, over the size of the weights, in double precision.

    Both draw batches and noise from the same counters.
    """
    small = replace(problem, models=2, batch=32)
    mechanism = dp_sgd(noise_multiplier=1.0, clip_norm=0.5, sample_rate=0.25, steps=3)
    double = ScheduleSettings(dtype=torch.float64, counters=True)
    there, here = (train(job_of(small, mechanism, place), lambda _: None, double).weights for place in (device, "cpu"))
    return largest_difference(there, here)


def of_graphs(problem: Problem, mechanism: Repeated, device: str) -> dict[str, Any]:
    """Milliseconds of a private step whose passes are CUDA graphs, and what that changes in weights; the error where it fails.

    Graphs were never captured on a GPU: an error is a result here, and is printed.
    """
    if find_device(device).type != "cuda":
        return {"graph_ms": None, "graph_disagreement": None, "graph_error": "CUDA graphs need a GPU"}
    graphs = ScheduleSettings(graphs=True)
    try:
        seconds = seconds_a_step(replace(problem, steps=max(problem.steps, 10)), mechanism, device, graphs)
        job = job_of(replace(problem, models=min(problem.models, 4), batch=32), replace(mechanism, count=8), device)
        repeated, plain = (train(job, lambda _: None, settings).weights for settings in (graphs, None))
    except (RuntimeError, AuditError) as error:
        return {"graph_ms": None, "graph_disagreement": None, "graph_error": f"{type(error).__name__}: {error}"}
    return {"graph_ms": 1e3 * seconds, "graph_disagreement": largest_difference(repeated, plain), "graph_error": None}


def largest_difference(left: Mapping[str, Any], right: Mapping[str, Any]) -> float:
    """Return the largest difference of a weight, over the size of its parameter."""
    return max(float(np.abs(left[name] - value).max() / max(np.abs(value).max(), 1e-12)) for name, value in right.items())


def measure(problem: Problem, device: str) -> dict[str, Any]:
    """One row of the table."""
    place = find_device(device)
    seconds_a_step(replace(problem, steps=1), sgd(sample_rate=0.25, steps=1), device)  # kernels are chosen and loaded
    plain = seconds_a_step(problem, sgd(sample_rate=0.25, steps=1), device)
    if place.type == "cuda":
        torch.cuda.reset_peak_memory_stats(place)
    mechanism = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.25, steps=1)
    private = seconds_a_step(problem, mechanism, device)
    memory = torch.cuda.max_memory_allocated(place) if place.type == "cuda" else 0
    return {
        "problem": problem.name,
        "models": problem.models,
        "batch": problem.batch,
        "private_ms": 1e3 * private,
        "plain_ms": 1e3 * plain,
        "cost_of_privacy": private / plain,
        "examples_a_second": problem.models * problem.batch / private,
        "memory_bytes": memory,
        "disagreement": disagreement(problem, device),
        **of_graphs(problem, mechanism, device),
    }


def main() -> int:
    """Prints the table; 1 where a device computes something else than the CPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--problems", default=",".join(problem.name for problem in PROBLEMS))
    options = parser.parse_args()
    name, threads = describe(options.device)
    print(f"{name}; torch {torch.__version__}; {threads} CPU threads")
    print(
        f"{'problem':10} {'N':>5} {'batch':>5} {'DP ms':>9} {'plain ms':>9} {'ratio':>6} {'examples/s':>11} "
        f"{'GiB':>6} {'differs':>9} {'graph ms':>9}"
    )
    rows = []
    for problem in PROBLEMS:
        if problem.name not in options.problems.split(","):
            continue
        row = measure(problem, options.device)
        rows.append(row)
        print(
            f"{row['problem']:10} {row['models']:5d} {row['batch']:5d} {row['private_ms']:9.3f} {row['plain_ms']:9.3f} "
            f"{row['cost_of_privacy']:6.2f} {row['examples_a_second']:11.0f} {row['memory_bytes'] / 2**30:6.2f} "
            f"{row['disagreement']:9.1e} "
            + (f"{row['graph_ms']:9.3f}" if row["graph_error"] is None else f"no graph: {row['graph_error']}")
        )
    options.out.write_text(json.dumps({"device": name, "torch": torch.__version__, "rows": rows}, indent=2) + "\n")
    return int(any(row["disagreement"] > _LIMIT or (row["graph_disagreement"] or 0.0) > _GRAPH_LIMIT for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
