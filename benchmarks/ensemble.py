"""Speed of the ensemble engine beside Opacus, one model after another, in the same run.

    python benchmarks/ensemble.py [--problems mlp,cnn64,cnn256,lira,scaling] [--scale 1.0] [--repeats 5] [--threads 1] \
        [--plot docs/images/ensemble-scaling.svg]

Same data, architecture, first weights, Poisson batches and steps on both sides; noise from each side's own stream.
Times are CPU seconds of this process (`time.process_time`) and wall seconds; medians over interleaved repeats. "compiled" is
the trainers' `compile: on`; the compiler runs before the clock starts and is timed on the first lines. Shares of the peak
count the products of a step, without padding, over all its time, against a 1024 x 1024 product by `torch.mm` in this process.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import math
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ensemble_peers import digits, fresh, job, opacus_loop, plain_loop, purchase_like
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from audit import plugins
from audit.core.events import sgd
from audit.core.seeds import Seed
from audit.core.training import TrainedModels, TrainingJob
from audit.core.views import View
from audit.engine.compile_c import compiler, library
from audit.engine.compiled.compiled_gradients import compilable
from audit.engine.compiled.compiled_mlp import SOURCE
from audit.engine.ensemble import train
from audit.engine.read.observe import logits
from audit.engine.schedule import ScheduleSettings
from audit.experiment.describe import leave_one_out

warnings.filterwarnings("ignore")
COMPILED = ScheduleSettings(compile="on")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One row of the table."""

    name: str
    job: TrainingJob


@dataclass(frozen=True, kw_only=True)
class Timing:
    cpu: float
    wall: float


def silent(_: int) -> None:
    """No progress bar."""


@contextmanager
def measured(into: list[Timing]) -> Iterator[None]:
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    into.append(Timing(cpu=time.process_time() - cpu, wall=time.perf_counter() - wall))


def measure_accuracy(training: TrainingJob, done: TrainedModels | list[nn.Module]) -> float:
    test = training.dataset.test
    if isinstance(done, TrainedModels):
        outputs = logits(training.model, done.weights, test.inputs, training.dataset.classes)
    else:
        with torch.no_grad():
            outputs = np.stack([module(torch.from_numpy(np.array(test.inputs))).numpy() for module in done])
    return float((outputs.argmax(-1) == test.labels).mean())


def beside_opacus(problem: Problem, repeats: int, peer_models: int) -> None:
    """Model-step times of our engine, with and without privacy, and of Opacus; interleaved, medians, ratios."""
    item = problem.job
    plain = replace(item, mechanism=sgd(sample_rate=item.sample_rate, steps=item.steps))
    models, steps = len(item.seeds), item.steps
    runs: dict[str, tuple[Callable[[], TrainedModels | list[nn.Module]], int]] = {
        "ours, DP-SGD": (lambda: train(item, silent), models),
        "ours, not private": (lambda: train(plain, silent), models),
        "ours, DP-SGD, compiled": (lambda: train(item, silent, COMPILED), models),
        "ours, not private, compiled": (lambda: train(plain, silent, COMPILED), models),
        "torch loop, not private": (lambda: plain_loop(plain, peer_models), peer_models),
        "Opacus hooks": (lambda: opacus_loop(item, "hooks", peer_models), peer_models),
        "Opacus ghost": (lambda: opacus_loop(item, "ghost", peer_models), peer_models),
    }
    if not compiles(item):
        runs = {name: run for name, run in runs.items() if "compiled" not in name}
    if importlib.util.find_spec("opacus") is None:
        runs = {name: run for name, run in runs.items() if "Opacus" not in name}
    chosen: dict[str, list[Timing]] = {name: [] for name in runs}
    reached: dict[str, float] = {}
    for turn in range(repeats + 1):
        for name, (run, _) in runs.items():
            retained: list[Timing] = []
            with measured(retained):
                done = run()
            if turn:  # the first round warms caches and kernels
                chosen[name] += retained
            else:
                reached[name] = measure_accuracy(item, done)
    print(f"\n{problem.name}: N = {models} ({peer_models} for the loops), {steps} steps, {repeats} repeats")
    work, peak = operations(item), matmul_peak()
    cpu = {name: statistics.median(t.cpu for t in chosen[name]) / count / steps for name, (_, count) in runs.items()}
    for name, (_, count) in runs.items():
        wall = statistics.median(t.wall for t in chosen[name]) / count / steps
        share = work / cpu[name] / peak / 1e9
        print(
            f"  {name:28s}{1e6 * cpu[name]:9.0f} us CPU {1e6 * wall:9.0f} us wall a model-step  {share:4.0%} of "
            f"the peak  {cpu[name] / cpu['ours, DP-SGD']:6.2f} x ours, DP  accuracy {reached[name]:.3f}"
        )
    best = min((cpu[name] for name in cpu if "Opacus" in name), default=math.nan)
    for kind in ("", ", compiled"):
        if f"ours, DP-SGD{kind}" in cpu:
            private, free = cpu[f"ours, DP-SGD{kind}"], cpu[f"ours, not private{kind}"]
            print(f"  DP-SGD{kind}: {best / private:.1f} x faster than the better Opacus; cost of privacy {private / free:.2f}")


def compiles(training: TrainingJob) -> bool:
    """True if compiled code can train the models of `one`."""
    architecture = compilable(fresh(training, 0), training.dataset.train.inputs.shape[1:])
    return architecture is not None and library(architecture.source) is not None


def operations(training: TrainingJob) -> float:
    """Floating-point operations of the products of one model-step: forward, signals back, one sum of gradients."""
    module = fresh(training, 0)
    mean = training.sample_rate * (len(training.dataset.train) + len(training.canaries))
    with FlopCounterMode(display=False) as counter:
        module(torch.zeros(8, *training.dataset.train.inputs.shape[1:])).sum().backward()
    return counter.get_total_flops() / 8 * mean


class Traffic(TorchDispatchMode):
    """A scope that counts the bytes which operations other than products read and write, and these operations."""

    def __init__(self) -> None:
        super().__init__()
        self.moved, self.calls = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func not in flop_registry and func.overloadpacket not in flop_registry and not func.is_view:
            values = [value for value in tree_leaves((args, kwargs, result)) if isinstance(value, torch.Tensor)]
            self.moved += sum(value.numel() * value.element_size() for value in values)
            self.calls += 1
        return result


def floor(training: TrainingJob) -> float:
    """Seconds that one model-step takes at least: products at their peak, all else at the speed of an addition as large."""
    module = fresh(training, 0)
    rows = round(training.sample_rate * (len(training.dataset.train) + len(training.canaries)))
    with Traffic() as traffic:
        module(torch.zeros(rows, *training.dataset.train.inputs.shape[1:])).sum().backward()
    first, second, into = torch.ones(3, max(1, traffic.moved // traffic.calls // 12))
    chosen = []
    for _ in range(12):
        start = time.process_time()
        for _ in range(100):
            torch.add(first, second, out=into)
        chosen.append((time.process_time() - start) / 100)
    return operations(training) / matmul_peak() / 1e9 + traffic.moved * min(chosen) / (12 * len(into))


def lira(repeats: int, models: int, epochs: int) -> None:
    """The published comparison: 17 MLPs 600-128-100 tanh, Adam 1e-3, batch 64, 10 epochs, LiRA with each as the target."""
    dataset = purchase_like()
    item = job(
        dataset,
        {"kind": "mlp", "hidden": [128], "activation": "tanh"},
        models=models,
        batch=128,  # of 8 000 records, of which each model has half: 64 a step
        steps=epochs * 4000 // 64,
        optimizer={"kind": "adam", "learning_rate": 1e-3},
        private=False,
    )
    attack = plugins.build("attacks.scorers", {"kind": "lira"})
    kinds = {"": ScheduleSettings(), ", compiled": COMPILED} if compiles(item) else {"": ScheduleSettings()}
    chosen: dict[str, list[Timing]] = {kind: [] for kind in kinds}
    for _ in range(repeats):
        for kind, settings in kinds.items():
            with measured(chosen[kind]):
                done = train(item, silent, settings)
                outputs = logits(item.model, done.weights, dataset.pool.inputs, 100)
                observed = View.of(included=item.included, logits=outputs)
                leave_one_out.leave_one_out(attack, observed, dataset.pool.labels, Seed(0))
    member = (outputs.argmax(-1) == dataset.pool.labels)[item.included].mean()
    print(f"\n17-model problem: {models} models, {item.steps} steps, {repeats} repeats, attack included")
    for kind, some in chosen.items():
        cpu, wall = (statistics.median(getattr(t, name) for t in some) for name in ("cpu", "wall"))
        print(f"  ours{kind}: {cpu:.1f} s CPU, {wall:.1f} s wall")
    print(f"  member accuracy {member:.3f}, test {measure_accuracy(item, done):.3f}, peak {peak_memory():.2f} GB")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measurement of the scaling curves."""

    what: str
    value: int
    kind: str
    seconds: float
    speed: float
    memory: float


def scaling(repeats: int, steps: int, plot: str | None) -> None:
    """Time a model-step against N, width and batch, share of the matrix-product peak, resident memory."""
    peak = matmul_peak()
    print(
        f"\nscaling of the DP-SGD step (CPU us a model-step; products of the step over its whole time; peak {peak:.0f} GFLOP/s)"
    )
    shapes = [("models", n, n, 64, 128) for n in (1, 4, 16, 64, 256)]
    shapes += [("width", width, 16, width, 128) for width in (16, 64, 256, 1024)]
    shapes += [("batch", batch, 16, 64, batch) for batch in (16, 64, 256, 1024)]
    points = []
    for what, value, models, width, batch in shapes:
        for kind, settings in (("torch", ScheduleSettings()), ("compiled", COMPILED)):
            if settings.compile == "on" and library(SOURCE) is None:
                continue
            points.append(curve_point((what, value, kind), (models, width, batch), repeats, steps, settings))
            item = points[-1]
            print(
                f"  {what:7s}{value:6d}  {kind:9s}{1e6 * item.seconds:9.0f} us  {item.speed:6.1f} GFLOP/s  "
                f"{item.speed / peak:5.0%} of peak  {item.memory:5.2f} GB at most resident"
            )
    if plot:
        draw(points, peak, plot)


def curve_point(
    name: tuple[str, int, str], shape: tuple[int, int, int], repeats: int, steps: int, settings: ScheduleSettings
) -> Point:
    models, width, batch = shape
    item = job(
        digits(image=False),
        {"kind": "mlp", "hidden": [width]},
        models=models,
        batch=batch,
        steps=steps,
        optimizer={"kind": "sgd", "learning_rate": 0.5},
    )
    nothing = replace(item, mechanism=replace(item.mechanism, count=0))
    chosen: list[Timing] = []
    start: list[Timing] = []
    forget_peak()
    for _ in range(repeats + 1):
        with measured(start):
            train(nothing, silent, settings)
        with measured(chosen):
            train(item, silent, settings)
    setup, full = (statistics.median(t.cpu for t in side[1:]) for side in (start, chosen))
    seconds = max(full - setup, 1e-9) / models / steps
    what, value, kind = name
    speed = operations(item) / seconds / 1e9
    return Point(what=what, value=value, kind=kind, seconds=seconds, speed=speed, memory=peak_memory())


def draw(points: list[Point], peak: float, path: str) -> None:
    """Three panels: microseconds a model-step, and the share of the matrix-product peak, against models, width and batch."""
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "ensemble"
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3), layout="constrained")
    for axis, what in zip(axes, ("models", "width", "batch"), strict=True):
        share = axis.twinx()
        for kind, mark in (("torch", "o"), ("compiled", "s")):
            some = [point for point in points if (point.what, point.kind) == (what, kind)]
            values = [p.value for p in some]
            axis.loglog(values, [1e6 * p.seconds for p in some], mark + "-", color="#00429d", label=kind)
            share.plot(values, [100 * p.speed / peak for p in some], mark + "--", color="#b2182b")
            axis.set_xticks(values, [str(value) for value in values])
        axis.set(xlabel=what, ylabel="CPU us a model-step (blue)")
        share.set(ylim=(0, 100), ylabel="% of the product peak (red)")
    axes[0].legend()
    figure.savefig(path, metadata={"Date": None})


def matmul_peak() -> float:
    """GFLOP/s of a 1024 x 1024 product in this process."""
    first = torch.randn(1024, 1024)
    chosen = []
    for _ in range(12):
        start = time.process_time()
        first @ first
        chosen.append(time.process_time() - start)
    return 2 * 1024**3 / min(chosen) / 1e9


def peak_memory() -> float:
    """Largest resident memory in GB since the last `forget_peak`."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 2**20


def forget_peak() -> None:
    """Starts the measurement of the largest resident memory anew (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--problems", default="mlp,cnn64,cnn256,lira,scaling")
    options.add_argument("--scale", type=float, default=1.0, help="multiplies models and steps; 0.2 for a quick look")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--plot", help="where the scaling curves are drawn, an SVG file")
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("torch", "numpy", "opacus") if installed(name)]
    print(
        f"{cpu_name()}, {os.cpu_count()} cores, {chosen.threads} thread(s); "
        f"Python {platform.python_version()}, {', '.join(versions)}"
    )
    print(f"load {os.getloadavg()[0]:.1f}; matrix product 1024 by torch.mm: {matmul_peak():.0f} GFLOP/s CPU")
    start = time.perf_counter()
    built = "nothing: no compiler" if library(SOURCE) is None else f"{time.perf_counter() - start:.1f} s wall"
    print(f"compiling took {built}; compiler: {' '.join(compiler() or ['none'])}")
    scale, sgd = chosen.scale, {"kind": "sgd", "learning_rate": 0.5}
    for name in chosen.problems.split(","):
        if name == "mlp":
            created = job(
                digits(image=False), {"kind": "mlp", "hidden": [64]}, models=max(2, int(32 * scale)), batch=128,
                steps=max(5, int(100 * scale)), optimizer=sgd,
            )  # fmt: skip
            beside_opacus(Problem(name="MLP 64-64-10, batch 128", job=created), chosen.repeats, max(1, int(8 * scale)))
        elif name.startswith("cnn"):
            batch = int(name.removeprefix("cnn"))
            model = {"factory": "ensemble_peers:small_cnn"}
            created = job(
                digits(image=True), model, models=max(2, int(16 * scale)), batch=batch,
                steps=max(3, int(20 * scale)), optimizer=sgd,
            )  # fmt: skip
            beside_opacus(
                Problem(name=f"CNN of 7 146 parameters, batch {batch}", job=created), chosen.repeats, max(1, int(4 * scale))
            )
        elif name == "lira":
            lira(max(1, chosen.repeats // 2), max(4, int(17 * min(scale, 1.0))), max(1, int(10 * scale)))
        elif name == "scaling":
            # batches are drawn for 64 steps at once, so a shorter training would pay for more than it uses
            scaling(chosen.repeats, max(5, int(64 * scale)), chosen.plot)
        else:
            raise SystemExit(f"unknown problem '{name}'; known: mlp, cnn64, cnn256, lira, scaling")


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def cpu_name() -> str:
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
