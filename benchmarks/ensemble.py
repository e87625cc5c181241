"""Speed of the ensemble engine beside Opacus, one model after another, in the same run.

    python benchmarks/ensemble.py [--problems mlp,cnn64,cnn256,lira,scaling] [--scale 1.0] [--repeats 5] [--threads 1] \
        [--plot docs/images/ensemble-scaling.svg]

Same data, architecture, first weights, Poisson batches and steps on both sides; noise from each side's own stream.
Times are CPU seconds of this process (`time.process_time`) and wall seconds; medians over interleaved repeats.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from ensemble_peers import digits, job, opacus_loop, plain_loop, purchase_like
from torch import nn

from audit import evaluation, plugins
from audit.core.mechanism import NonPrivate
from audit.core.protocols import TrainingJob
from audit.core.records import ReferenceView, TrainedModels
from audit.core.seeds import Seed
from audit.training.ensemble import train
from audit.training.observe import logits

warnings.filterwarnings("ignore")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One row of the table."""

    name: str
    job: TrainingJob


@dataclass(frozen=True, kw_only=True)
class Taken:
    cpu: float
    wall: float


def silent(_: int) -> None:
    """No progress bar."""


@contextmanager
def measured(into: list[Taken]) -> Iterator[None]:
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    into.append(Taken(cpu=time.process_time() - cpu, wall=time.perf_counter() - wall))


def accuracy_of(one: TrainingJob, done: TrainedModels | list[nn.Module]) -> float:
    test = one.dataset.test
    if isinstance(done, TrainedModels):
        outputs = logits(one.model, done.weights, test.inputs, one.dataset.classes)
    else:
        with torch.no_grad():
            outputs = np.stack([module(torch.from_numpy(np.array(test.inputs))).numpy() for module in done])
    return float((outputs.argmax(-1) == test.labels).mean())


def beside_opacus(problem: Problem, repeats: int, peer_models: int) -> None:
    """Model-step times of our engine, with and without privacy, and of Opacus; interleaved, medians, ratios."""
    one = problem.job
    plain = replace(one, mechanism=NonPrivate(sample_rate=one.mechanism.sample_rate, steps=one.mechanism.steps))
    models, steps = len(one.seeds), one.mechanism.steps
    runs: dict[str, tuple[Callable[[], TrainedModels | list[nn.Module]], int]] = {
        "ours, DP-SGD": (lambda: train(one, silent), models),
        "ours, not private": (lambda: train(plain, silent), models),
        "torch loop, not private": (lambda: plain_loop(plain, peer_models), peer_models),
        "Opacus hooks": (lambda: opacus_loop(one, "hooks", peer_models), peer_models),
        "Opacus ghost": (lambda: opacus_loop(one, "ghost", peer_models), peer_models),
    }
    if importlib.util.find_spec("opacus") is None:
        runs = {name: run for name, run in runs.items() if "Opacus" not in name}
    taken: dict[str, list[Taken]] = {name: [] for name in runs}
    reached: dict[str, float] = {}
    for turn in range(repeats + 1):
        for name, (run, _) in runs.items():
            kept: list[Taken] = []
            with measured(kept):
                done = run()
            if turn:  # the first round warms caches and kernels
                taken[name] += kept
            else:
                reached[name] = accuracy_of(one, done)
    print(f"\n{problem.name}: N = {models} ({peer_models} for the loops), {steps} steps, {repeats} repeats")
    ours = statistics.median(t.cpu for t in taken["ours, DP-SGD"]) / models / steps
    for name, (_, count) in runs.items():
        cpu = statistics.median(t.cpu for t in taken[name]) / count / steps
        wall = statistics.median(t.wall for t in taken[name]) / count / steps
        print(
            f"  {name:26s}{1e6 * cpu:10.0f} us CPU {1e6 * wall:10.0f} us wall a model-step"
            f"   {cpu / ours:6.2f} x ours, DP   accuracy {reached[name]:.3f}"
        )


def lira(repeats: int, models: int, epochs: int) -> None:
    """The published comparison: 17 MLPs 600-128-100 tanh, Adam 1e-3, batch 64, 10 epochs, LiRA with each as the target."""
    dataset = purchase_like()
    one = job(
        dataset,
        {"kind": "mlp", "hidden": [128], "activation": "tanh"},
        models=models,
        batch=128,  # of 8 000 records, of which each model has half: 64 a step
        steps=epochs * 4000 // 64,
        optimizer={"kind": "adam", "learning_rate": 1e-3},
        private=False,
    )
    taken: list[Taken] = []
    for _ in range(repeats):
        with measured(taken):
            done = train(one, silent)
            outputs = logits(one.model, done.weights, dataset.pool.inputs, 100)
            seen = ReferenceView(included=one.included, logits=outputs)
            evaluation.leave_one_out(plugins.build("attacks.scorers", {"kind": "lira"}), seen, dataset.pool.labels, Seed(0))
    cpu, wall = (statistics.median(getattr(t, name) for t in taken) for name in ("cpu", "wall"))
    member = (outputs.argmax(-1) == dataset.pool.labels)[one.included].mean()
    print(
        f"\n17-model problem: {models} models, {one.mechanism.steps} steps, {repeats} repeats: "
        f"{cpu:.1f} s CPU, {wall:.1f} s wall; member accuracy {member:.3f}, "
        f"test {accuracy_of(one, done):.3f}, peak {peak_memory():.2f} GB"
    )


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measurement of the scaling curves."""

    what: str
    value: int
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
        taken = max(4, steps * 16 * 64 * 128 // max(models, 16) // max(width, 64) // max(batch, 128))
        points.append(curve_point(what, value, (models, width, batch), repeats, taken))
        one = points[-1]
        print(
            f"  {what:7s}{value:6d}  {1e6 * one.seconds:9.0f} us  {one.speed:6.1f} GFLOP/s  {one.speed / peak:5.0%} of peak"
            f"  {one.memory:5.2f} GB at most resident"
        )
    if plot:
        draw(points, peak, plot)


def curve_point(what: str, value: int, shape: tuple[int, int, int], repeats: int, steps: int) -> Point:
    models, width, batch = shape
    one = job(
        digits(image=False),
        {"kind": "mlp", "hidden": [width]},
        models=models,
        batch=batch,
        steps=steps,
        optimizer={"kind": "sgd", "learning_rate": 0.5},
    )
    nothing = replace(one, mechanism=replace(one.mechanism, steps=0))
    taken: list[Taken] = []
    start: list[Taken] = []
    forget_peak()
    for _ in range(repeats + 1):
        with measured(start):
            train(nothing, silent)
        with measured(taken):
            train(one, silent)
    setup, whole = (statistics.median(t.cpu for t in side[1:]) for side in (start, taken))
    seconds = max(whole - setup, 1e-9) / models / steps
    multiplications = batch * (64 * width * 2 + width * 10 * 3)
    return Point(what=what, value=value, seconds=seconds, speed=2 * multiplications / seconds / 1e9, memory=peak_memory())


def draw(points: list[Point], peak: float, path: str) -> None:
    """Three panels: microseconds a model-step, and the share of the matrix-product peak, against models, width and batch."""
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "ensemble"
    figure, axes = pyplot.subplots(1, 3, figsize=(9, 3), layout="constrained")
    for axis, what in zip(axes, ("models", "width", "batch"), strict=True):
        some = [point for point in points if point.what == what]
        axis.loglog([p.value for p in some], [1e6 * p.seconds for p in some], "o-", color="#00429d")
        axis.set(xlabel=what, ylabel="CPU us a model-step")
        axis.set_xticks([p.value for p in some], [str(p.value) for p in some])
        share = axis.twinx()
        share.plot([p.value for p in some], [100 * p.speed / peak for p in some], "s--", color="#b2182b")
        share.set(ylim=(0, 100), ylabel="% of matrix-product peak")
    figure.savefig(path, metadata={"Date": None})


def matmul_peak() -> float:
    """GFLOP/s of a 1024 x 1024 product in this process."""
    left = torch.randn(1024, 1024)
    taken = []
    for _ in range(12):
        start = time.process_time()
        left @ left
        taken.append(time.process_time() - start)
    return 2 * 1024**3 / min(taken) / 1e9


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
    print(f"load {os.getloadavg()[0]:.1f}; matrix product 1024: {matmul_peak():.0f} GFLOP/s CPU")
    scale, sgd = chosen.scale, {"kind": "sgd", "learning_rate": 0.5}
    for name in chosen.problems.split(","):
        if name == "mlp":
            made = job(
                digits(image=False), {"kind": "mlp", "hidden": [64]}, models=max(2, int(32 * scale)), batch=128,
                steps=max(5, int(100 * scale)), optimizer=sgd,
            )  # fmt: skip
            beside_opacus(Problem(name="MLP 64-64-10, batch 128", job=made), chosen.repeats, max(1, int(8 * scale)))
        elif name.startswith("cnn"):
            batch = int(name.removeprefix("cnn"))
            model = {"factory": "ensemble_peers:small_cnn"}
            made = job(
                digits(image=True), model, models=max(2, int(16 * scale)), batch=batch,
                steps=max(3, int(20 * scale)), optimizer=sgd,
            )  # fmt: skip
            beside_opacus(
                Problem(name=f"CNN of 7 146 parameters, batch {batch}", job=made), chosen.repeats, max(1, int(4 * scale))
            )
        elif name == "lira":
            lira(max(1, chosen.repeats // 2), max(4, int(17 * min(scale, 1.0))), max(1, int(10 * scale)))
        elif name == "scaling":
            scaling(chosen.repeats, max(5, int(50 * scale)), chosen.plot)
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
