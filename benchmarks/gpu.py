"""The engine on a GPU: does it compute what a CPU computes, and how long does a step take?

    python benchmarks/gpu.py [--device cuda] [--minutes 8] [--out gpu.json]
    python benchmarks/gpu.py --device cpu --small      the same code in less than a minute; its figures are no measurement

Prints a table and writes JSON after every row, in order of worth: milliseconds a step with and without privacy, examples a
second, the cost of privacy, most memory allocated, the largest difference to the CPU's weights in double precision after a few
steps with the same batches and the same noise, both from counters; the same models by Opacus, one after another, and by
`vmap(vmap(grad))`; a private step with passes as CUDA graphs, and one with products in bfloat16; kernels a step. Rows are
not measured again if they are complete in the JSON. `gpu_predictions.json`, counted without a GPU, gives the predictions.

A step of ours is timed within one training, from report to report, after the first two fifths of it; that of a peer as the
difference of a long and a short run. The shorter of two such times counts, and both are in the JSON. If a row does not fit into
the minutes, it is named and left out; if one fails, it is named and the rest continues: either ends with 1, as does a device
that computes something else than the CPU.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
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
_SHORT_STEPS, _DRY_STEPS, _MOST_STEPS = 4, 2, 2000
_SECONDS, _MOST = 0.4, 64  # that a peer's long run should take more, and how much longer it may be made for that
_PAIRS = 2
# seconds and reports of a training after the steps in which kernels are chosen, graphs captured and compared; of these
# seconds the first share is not timed
_WINDOW, _MARKS, _WARM_STEPS, _WARM = 1.5, 6, 36, 0.4


class EnoughError(Exception):
    """A training that was long enough to be timed."""


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


_WRN = {"kind": "wide_resnet", "depth": 16, "widen": 4, "groups": 16}
_SMALL_WRN = {"depth": 10, "widen": 1}
_VIT = {"kind": "vit", "patch": 4, "width": 192, "depth": 6, "heads": 6}
_IMAGE = (3, 32, 32)
PROBLEMS = (
    Problem(name="mlp", model={"kind": "mlp", "hidden": [64]}, shape=(64,), models=64, batch=128, steps=200),
    Problem(name="cnn", model={"kind": "cnn", "channels": [16, 32]}, shape=_IMAGE, models=64, batch=128, steps=20),
    Problem(name="wrn-x16", model=_WRN, shape=_IMAGE, models=16, batch=64, steps=3, smaller=_SMALL_WRN),
    Problem(name="wrn-x64", model=_WRN, shape=_IMAGE, models=64, batch=64, steps=2, smaller=_SMALL_WRN),
    Problem(name="wrn", model=_WRN, shape=_IMAGE, models=1, batch=1024, steps=3, smaller=_SMALL_WRN),
    Problem(name="vit", model=_VIT, shape=_IMAGE, models=1, batch=1024, steps=3, smaller={"width": 24, "depth": 1, "heads": 2}),
    Problem(name="lora", model={"factory": "engine_goals:Adapted"}, shape=(1, 28, 28), models=16, batch=64, steps=10),
    Problem(name="mlp-1000", model={"kind": "mlp", "hidden": [64]}, shape=(64,), models=1000, batch=128, steps=50),
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
        self.wait()
        return time.perf_counter() - begin, weights

    def seconds_a_step(self, problem: Problem, mechanism: Repeated, settings: ScheduleSettings | None = None) -> list[float]:
        """Return seconds of one step of all models of `problem`, in either half of a training after its first part."""
        job = make_job(problem, replace(mechanism, count=_DRY_STEPS if self.small else _MOST_STEPS), self.device)
        marks = [(0, time.perf_counter())]

        def hear(steps: int) -> None:
            self._go_on(0)
            self.wait()
            marks.append((marks[-1][0] + steps, time.perf_counter()))
            warm = [mark for mark in marks if mark[0] >= _WARM_STEPS * problem.models]
            if len(warm) > _MARKS and marks[-1][1] - warm[0][1] > _WINDOW:
                raise EnoughError

        with suppress(EnoughError):
            train(job, hear, settings)
        warm = marks[0][1] + _WARM * (marks[-1][1] - marks[0][1])
        later = [mark for mark in marks if mark[1] >= warm and mark[0] >= _WARM_STEPS * problem.models]
        later = later if len(later) > 1 else marks[-2:]
        cuts = [later[0], later[len(later) // 2], later[-1]] if len(later) > 2 else [later[0], later[-1]]
        return [problem.models * (end[1] - begin[1]) / (end[0] - begin[0]) for begin, end in itertools.pairwise(cuts)]

    def slope(self, spent: Callable[[int], float], steps: int) -> list[float]:
        """Return seconds of one step, of each pair of a short and a long run.

        Args:
            spent: seconds of a run of so many steps.
            steps: that the long run has more than the short one, at first.
        """
        start = _DRY_STEPS if self.small else _SHORT_STEPS

        def pair(steps: int) -> float:
            self._go_on(0)
            short, long = spent(start), spent(start + steps)
            return long - short

        spent(start)  # kernels are chosen and loaded
        if self.small:
            return [pair(steps) / steps]
        first = pair(steps)
        if first < _SECONDS:
            steps *= min(_MOST, math.ceil(1.5 * _SECONDS / max(first, 1e-6)))
            first = pair(steps)
        return [first / steps, *(pair(steps) / steps for _ in range(_PAIRS - 1))]

    def wait(self) -> None:
        """Until the device has done what was launched."""
        if find_device(self.device).type == "cuda":
            torch.cuda.synchronize()

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


def uncaptured(clock: Clock, problem: Problem) -> dict[str, Any]:
    """Time of a private step without CUDA graphs, and what these change in weights; a CPU has none.

    At most two of 50 passes are compared with passes as they are, which is in the time with graphs.
    """
    settings = ScheduleSettings(graphs=False)
    figures = timing("uncaptured", clock, problem, _PRIVATE, settings)
    job = make_job(replace(problem, models=min(problem.models, 4), batch=32), replace(_PRIVATE, count=8), clock.device)
    repeated, usual = (clock.train(job, item)[1] for item in (None, settings))
    return {**figures, "graph_disagreement": largest_difference(repeated, usual)}


def peers(clock: Clock, problem: Problem) -> dict[str, Any]:
    """Milliseconds of a step of one model by Opacus, by hooks and as ghosts, and by `vmap(vmap(grad))` over a few models.

    Batches are those of ours, noise is each side's own. What a peer cannot train is a result, not an error.
    """
    from ensemble_peers import opacus_loop, vmap_loop

    together = min(problem.models, _VMAP_MODELS)
    runs: dict[str, tuple[Callable[[TrainingJob], Any], int]] = {
        "opacus_hooks": (lambda job: opacus_loop(job, "hooks", 1), 1),
        "opacus_ghost": (lambda job: opacus_loop(job, "ghost", 1), 1),
        "vmap": (lambda job: vmap_loop(job, together), together),
    }
    figures: dict[str, Any] = {}
    for name, (run, models) in runs.items():

        def spent(steps: int, run: Callable[[TrainingJob], Any] = run) -> float:
            job = make_job(replace(problem, models=together), replace(_PRIVATE, count=steps), clock.device)
            begin = time.perf_counter()
            run(job)
            clock.wait()
            return time.perf_counter() - begin

        try:
            times = [1e3 * seconds / models for seconds in clock.slope(spent, max(problem.steps, 5))]
            figures |= {f"{name}_ms": min(times), f"{name}_ms_all": times}
        except (RuntimeError, NotImplementedError, ImportError) as error:
            figures[f"{name}_cannot"] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            torch.cuda.empty_cache()
    return figures


def shorter(clock: Clock, problem: Problem) -> dict[str, Any]:
    """Time of a private step if its products are shorter than single precision."""
    return {
        name: value
        for precision in ("tf32", "bfloat16")
        for name, value in timing(precision, clock, problem, _PRIVATE, ScheduleSettings(precision=precision)).items()
    }


def kernels(clock: Clock, problem: Problem) -> dict[str, Any]:
    """Kernels and launches of a private step, and the eight kernels that take most of its time, by torch's profiler."""
    from torch.profiler import ProfilerActivity, profile

    if find_device(clock.device).type != "cuda":
        return {}
    counts = []
    for steps in (_PROFILED, 2 * _PROFILED):
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
            clock.train(make_job(problem, replace(_PRIVATE, count=steps), clock.device))
        table = profiler.key_averages()
        kernel_rows = [row for row in table if row.device_type == torch.autograd.DeviceType.CUDA]
        busy = sum(row.self_device_time_total for row in kernel_rows)
        counts.append(
            (sum(row.count for row in kernel_rows), busy, sum(row.count for row in table if "LaunchKernel" in row.key))
        )
    (_, short, _), (_, long, _) = counts
    few, many = counts
    longest = sorted(kernel_rows, key=lambda row: -row.self_device_time_total)[:_LONGEST]
    return {
        "kernels_a_step": (many[0] - few[0]) / _PROFILED,
        "launches_a_step": (many[2] - few[2]) / _PROFILED,
        "busy_ms": (long - short) / 1e3 / _PROFILED,
        "longest_kernels": [[row.key[:100], row.count, row.self_device_time_total / 1e3] for row in longest],
    }


_PRIVATE = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.25, steps=1)
_VMAP_MODELS, _LONGEST, _PROFILED = 16, 8, 6
PARTS: tuple[Callable[[Clock, Problem], dict[str, Any]], ...] = (private, plain, peers, uncaptured, shorter, agreement, kernels)


def largest_difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    """Return the largest difference of a weight, over the size of its parameter."""
    return max(float(np.abs(first[name] - value).max() / max(np.abs(value).max(), 1e-12)) for name, value in second.items())


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
        for name in ("opacus", "vmap"):
            times = [value for key, value in row.items() if key.startswith(name) and key.endswith("_ms")]
            row[f"beside_{name}"] = min(times) * problem.models / private_ms if times else None
    return {**row, "errors": errors, "not_run": not_run}


COLUMNS = (
    ("private_ms", "DP ms", "9.3f"), ("plain_ms", "plain ms", "9.3f"), ("cost_of_privacy", "ratio", "6.2f"),
    ("examples_a_second", "examples/s", "11.0f"), ("memory_bytes", "bytes", "13d"), ("disagreement", "differs", "9.1e"),
    ("uncaptured_ms", "no graph", "9.3f"), ("graph_disagreement", "differs", "9.1e"), ("tf32_ms", "tf32 ms", "9.3f"),
    ("bfloat16_ms", "bf16 ms", "9.3f"),
    ("beside_opacus", "x Opacus", "8.2f"), ("beside_vmap", "x vmap", "8.2f"), ("busy_ms", "busy ms", "9.3f"),
    ("launches_a_step", "launches", "8.0f"), ("predicted_ms", "predicted", "9.3f"),
)  # fmt: skip


def line(row: Mapping[str, Any]) -> str:
    """Return one row of the table, with a line for what failed or was not run."""
    cells = [
        f"{'-':>{form.split('.')[0].rstrip('d')}}" if row.get(key) is None else f"{row[key]:{form}}" for key, _, form in COLUMNS
    ]
    text = f"{row['problem']:13} {row['models']:5d} {row['batch']:5d} {' '.join(cells)}"
    failures = [f"  {part}: {error}" for part, error in row["errors"].items()]
    return "\n".join([text, *failures, *(f"  {part}: not run, the time is over" for part in row["not_run"])])


def is_wrong(row: Mapping[str, Any]) -> bool:
    """True if something failed, was not run, or differs from its expected value."""
    far = (row.get("disagreement") or 0.0) > _LIMIT or (row.get("graph_disagreement") or 0.0) > _GRAPH_LIMIT
    return far or bool(row["errors"]) or bool(row["not_run"])


def rates(device: str) -> dict[str, float]:
    """Rates of this device in the units that predictions use: products a second in three precisions, bytes copied a second."""
    size, place = (8192 if find_device(device).type == "cuda" else 512), find_device(device)
    rates_by_name = {}
    for name, dtype, short in (
        ("float32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("bfloat16", torch.bfloat16, False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = short
        first, second = (torch.randn(size, size, device=place).to(dtype) for _ in range(2))
        rates_by_name[f"{name}_products_a_second"] = (
            2 * size**3 / _seconds(lambda first=first, second=second: first @ second, place)
        )
    torch.backends.cuda.matmul.allow_tf32 = False
    block = torch.randn(size * size, device=place)
    rates_by_name["bytes_a_second"] = 8 * size**2 / _seconds(block.clone, place)
    return rates_by_name


def _seconds(work: Callable[[], Any], place: torch.device, repeats: int = 10) -> float:
    for measured in (False, True):
        if place.type == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(repeats):
            work()
        if place.type == "cuda":
            torch.cuda.synchronize()
        if measured:
            return (time.perf_counter() - begin) / repeats
    raise AssertionError


def stored_rows(path: Path, head: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of an earlier run on the same device; none if there was none."""
    if not path.exists():
        return []
    stored = json.loads(path.read_text())
    same = all(stored.get(name) == head[name] for name in ("device", "torch", "measurement"))
    return list(stored["rows"]) if same else []


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
    print(f"{'problem':13} {'N':>5} {'batch':>5} {titles}")
    clock = Clock(options.device, 60.0 * options.minutes, small=options.small)
    head = {"device": name, "torch": torch.__version__, "measurement": not options.small}
    if not options.small:
        head |= rates(options.device)
        print(json.dumps(head))
    rows_by_name = {row["problem"]: row for row in stored_rows(options.out, head)}
    predicted = json.loads((Path(__file__).parent / "gpu_predictions.json").read_text())
    for problem in PROBLEMS:
        if problem.name not in options.problems.split(","):
            continue
        if problem.name not in rows_by_name or is_wrong(rows_by_name[problem.name]):
            row = measure(clock, problem.small() if options.small else problem)
            rows_by_name[problem.name] = row | {"predicted_ms": predicted.get(problem.name, {}).get("predicted_ms")}
        print(line(rows_by_name[problem.name]), flush=True)
        options.out.write_text(json.dumps({**head, "rows": list(rows_by_name.values())}, indent=2) + "\n")
    return int(any(is_wrong(row) for row in rows_by_name.values()))


if __name__ == "__main__":
    raise SystemExit(main())
