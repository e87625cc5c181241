"""The engine on a GPU: does it compute what a CPU computes, and how long does a step take?

    python benchmarks/gpu.py [--device cuda] [--minutes 8] [--out gpu.json]
    python benchmarks/gpu.py --device cpu --small      the same code in less than a minute; its figures are no measurement

Prints a table and writes JSON after every row: milliseconds a step with and without privacy, examples a second, the cost of
privacy, most memory allocated, the largest difference to the CPU's weights in double precision after a few steps with the same
batches and the same noise, both from counters; and a private step whose passes are CUDA graphs.

A step is timed as the difference of a long and a short training, over the steps between them, after a first training that loads
kernels and is not timed; the shorter of two such differences counts, and both are in the JSON. Trainings are made longer until
they differ by about a second. What does not fit into the minutes is named and left out, what fails is named and the rest goes
on: either ends with 1, as does a device that computes something else than the CPU. Never run on a GPU yet.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Dataset, Records
from audit.core.errors import AuditError
from audit.core.events import Repeated, dp_sgd, sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine.device import describe, find_device
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings

_LIMIT = 1e-6
_GRAPH_LIMIT = 1e-4  # single precision, eight steps
_SHORT_STEPS, _DRY_STEPS = 4, 2
# graphs of both widths are captured by then, and the 1st, 2nd, 4th, 8th and 16th repetition compared with the pass as it is
_GRAPH_STEPS = 20
_SECONDS, _MOST = 1.0, 64  # that a long training should take more, and how much longer it may be made for that
_PAIRS = 2


class OutOfTimeError(Exception):
    """The minutes are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One row of the table: a model, records of a shape, models together, the expected batch.

    Attributes:
        smaller: options of the model for a dry run.
    """

    name: str
    model: Mapping[str, Any]
    shape: tuple[int, ...]
    models: int
    batch: int
    steps: int
    smaller: Mapping[str, Any] = field(default_factory=dict)

    def small(self) -> Problem:
        """Return the same kind of problem that any CPU trains in seconds."""
        return replace(self, models=min(self.models, 2), batch=8, steps=1, model={**self.model, **self.smaller})


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
        smaller={"depth": 10, "widen": 1},
    ),
    Problem(
        name="vit",
        model={"kind": "vit", "patch": 4, "width": 192, "depth": 6, "heads": 6},
        shape=(3, 32, 32),
        models=1,
        batch=1024,
        steps=5,
        smaller={"width": 24, "depth": 1, "heads": 2},
    ),
)


def make_job(problem: Problem, mechanism: Repeated, device: str) -> TrainingJob:
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
        canaries=Canaries(kind="held_out", description="", payload=CanaryRecords(records=pool)),
        included=np.zeros((problem.models, 2), dtype=bool),
        seeds=tuple(Seed(0).child("model", index) for index in range(problem.models)),
        mechanism=mechanism,
        model=problem.model,
        optimizer={"kind": "sgd", "learning_rate": 0.1},
        access=Access.FINAL_WEIGHTS,
        device=device,
    )


class Clock:
    """Trains within a time, and says how long that took.

    Args:
        device: name of the device.
        seconds: from now on, after which `train` raises `OutOfTimeError`.
        small: a dry run: nothing is repeated to be measured.
    """

    def __init__(self, device: str, seconds: float, *, small: bool) -> None:
        self.device, self.small = device, small
        self._end = time.monotonic() + seconds

    def train(self, job: TrainingJob, settings: ScheduleSettings | None = None) -> tuple[float, Mapping[str, Any]]:
        """Return the seconds of a training, and its weights."""
        self._go_on(0)
        begin = time.perf_counter()
        weights = train(job, self._go_on, settings).weights
        if find_device(job.device).type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin, weights

    def seconds_a_step(self, problem: Problem, mechanism: Repeated, settings: ScheduleSettings | None = None) -> list[float]:
        """Return seconds of one step of all models of `problem`, of each pair of trainings."""

        usual = _GRAPH_STEPS if settings is not None and settings.graphs else _SHORT_STEPS
        start = _DRY_STEPS if self.small else usual

        def pair(steps: int) -> float:
            short, long = (self.train(job(count), settings)[0] for count in (start, start + steps))
            return long - short

        def job(steps: int) -> TrainingJob:
            return make_job(problem, replace(mechanism, count=steps), self.device)

        self.train(job(start), settings)  # kernels are chosen and loaded
        steps = problem.steps
        if self.small:
            return [pair(steps) / steps]
        first = pair(steps)
        if first < _SECONDS:
            steps *= min(_MOST, math.ceil(1.5 * _SECONDS / max(first, 1e-6)))
            first = pair(steps)
        return [first / steps, *(pair(steps) / steps for _ in range(_PAIRS - 1))]

    def _go_on(self, steps: int) -> None:
        if time.monotonic() > self._end:
            raise OutOfTimeError


def timing(name: str, clock: Clock, problem: Problem, mechanism: Repeated, settings: ScheduleSettings | None) -> dict[str, Any]:
    """Milliseconds of a step, the least of the pairs and all of them; None if trainings of more steps took no longer."""
    times = [1e3 * seconds for seconds in clock.seconds_a_step(problem, mechanism, settings)]
    positive = [value for value in times if value > 0]
    return {f"{name}_ms": min(positive) if positive else None, f"{name}_ms_all": times}


def plain(clock: Clock, problem: Problem) -> dict[str, Any]:
    """Time of a step without privacy."""
    return timing("plain", clock, problem, sgd(sample_rate=0.25, steps=1), None)


def private(clock: Clock, problem: Problem) -> dict[str, Any]:
    """Time of a private step, and the most memory that it takes."""
    place = find_device(clock.device)
    if place.type == "cuda":
        torch.cuda.reset_peak_memory_stats(place)
    figures = timing("private", clock, problem, _PRIVATE, None)
    return {**figures, "memory_bytes": torch.cuda.max_memory_allocated(place) if place.type == "cuda" else 0}


def agreement(clock: Clock, problem: Problem) -> dict[str, Any]:
    """Largest difference of a weight trained on the device to the CPU's, over the size of the weights, in double precision.

    Both draw batches and noise from the same counters, batches by the distances between members (tests for a GPU toss coins).
    """
    few_records = replace(problem, models=2, batch=min(problem.batch, 32))
    mechanism = dp_sgd(noise_multiplier=1.0, clip_norm=0.5, sample_rate=0.06, steps=3)
    double = ScheduleSettings(dtype=torch.float64, counters=True)
    there, here = (clock.train(make_job(few_records, mechanism, place), double)[1] for place in (clock.device, "cpu"))
    return {"disagreement": largest_difference(there, here)}


def graphs(clock: Clock, problem: Problem) -> dict[str, Any]:
    """Time of a private step whose passes are CUDA graphs, and what that changes in weights; on a CPU without graphs.

    At most two of 50 passes are compared with passes as they are, which is in their time.
    Graphs were never captured on a GPU: an error is a result here, and is printed.
    """
    settings = ScheduleSettings(graphs=find_device(clock.device).type == "cuda")
    figures = timing("graph", clock, problem, _PRIVATE, settings)
    job = make_job(replace(problem, models=min(problem.models, 4), batch=32), replace(_PRIVATE, count=8), clock.device)
    repeated, usual = (clock.train(job, item)[1] for item in (settings, None))
    return {**figures, "graph_disagreement": largest_difference(repeated, usual)}


_PRIVATE = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.25, steps=1)
PARTS: tuple[Callable[[Clock, Problem], dict[str, Any]], ...] = (plain, private, agreement, graphs)


def largest_difference(left: Mapping[str, Any], right: Mapping[str, Any]) -> float:
    """Return the largest difference of a weight, over the size of its parameter."""
    return max(float(np.abs(left[name] - value).max() / max(np.abs(value).max(), 1e-12)) for name, value in right.items())


def measure(clock: Clock, problem: Problem) -> dict[str, Any]:
    """One row of the table; `not_run` names what no longer fitted into the time, `errors` what failed."""
    row: dict[str, Any] = {"problem": problem.name, "models": problem.models, "batch": problem.batch}
    errors: dict[str, str] = {}
    not_run: list[str] = []
    for part in PARTS:
        try:
            row |= part(clock, problem)
        except OutOfTimeError:
            not_run.append(part.__name__)
        except (RuntimeError, AuditError) as error:
            errors[part.__name__] = f"{type(error).__name__}: {error}"
    private_ms, plain_ms = row.get("private_ms"), row.get("plain_ms")
    if private_ms:
        row["examples_a_second"] = 1e3 * problem.models * problem.batch / private_ms
        row["cost_of_privacy"] = private_ms / plain_ms if plain_ms else None
    return {**row, "errors": errors, "not_run": not_run}


COLUMNS = (
    ("private_ms", "DP ms", "9.3f"), ("plain_ms", "plain ms", "9.3f"), ("cost_of_privacy", "ratio", "6.2f"),
    ("examples_a_second", "examples/s", "11.0f"), ("memory_bytes", "bytes", "13d"), ("disagreement", "differs", "9.1e"),
    ("graph_ms", "graph ms", "9.3f"), ("graph_disagreement", "differs", "9.1e"),
)  # fmt: skip


def line(row: Mapping[str, Any]) -> str:
    """Return one row of the table, with a line for what failed or was not run."""
    cells = [
        f"{'-':>{form.split('.')[0].rstrip('d')}}" if row.get(key) is None else f"{row[key]:{form}}" for key, _, form in COLUMNS
    ]
    text = f"{row['problem']:10} {row['models']:5d} {row['batch']:5d} {' '.join(cells)}"
    failures = [f"  {part}: {error}" for part, error in row["errors"].items()]
    return "\n".join([text, *failures, *(f"  {part}: not run, the time is over" for part in row["not_run"])])


def is_wrong(row: Mapping[str, Any]) -> bool:
    """True if something failed, was not run, or differs from what it has to be equal to."""
    far = (row.get("disagreement") or 0.0) > _LIMIT or (row.get("graph_disagreement") or 0.0) > _GRAPH_LIMIT
    return far or bool(row["errors"]) or bool(row["not_run"])


def main() -> int:
    """Prints the table; 1 if a device computes something else than the CPU, or a figure is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=8.0, help="after which nothing more is trained")
    parser.add_argument("--small", action="store_true", help="run the code of every row on a small problem: no measurement")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--problems", default=",".join(problem.name for problem in PROBLEMS))
    options = parser.parse_args()
    name, threads = describe(options.device)
    unknown = sorted(set(options.problems.split(",")) - {problem.name for problem in PROBLEMS})
    if unknown:
        parser.error(
            f"--problems names {', '.join(unknown)}; expected some of {', '.join(problem.name for problem in PROBLEMS)}"
        )
    print(f"{name}; torch {torch.__version__}; {threads} CPU threads")
    if options.small:
        print("--small: the figures are no measurement")
    widths = [int(form.split(".")[0].rstrip("d")) for _, _, form in COLUMNS]
    titles = " ".join(f"{title:>{width}}" for (_, title, _), width in zip(COLUMNS, widths, strict=True))
    print(f"{'problem':10} {'N':>5} {'batch':>5} {titles}")
    clock = Clock(options.device, 60.0 * options.minutes, small=options.small)
    head = {"device": name, "torch": torch.__version__, "measurement": not options.small}
    rows: list[dict[str, Any]] = []
    for problem in PROBLEMS:
        if problem.name in options.problems.split(","):
            rows.append(measure(clock, problem.small() if options.small else problem))
            print(line(rows[-1]), flush=True)
            options.out.write_text(json.dumps({**head, "rows": rows}, indent=2) + "\n")
    return int(any(is_wrong(row) for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
