"""Steps of small convolutional networks by torch's kernels and compiled, in one process taking turns.

    python benchmarks/compiled_networks.py [--repeats 3] [--threads 1]

CPU microseconds of a step of one model by DP-SGD, without the set-up of a training (one of no steps is taken off); medians,
and the median of the ratios of pairs with their range.
"""

from __future__ import annotations

import argparse
import os
import statistics
from dataclasses import replace
from typing import Any

import torch
from engine_goals import SGD, seconds
from ensemble import COMPILED, compiles, cpu_name, matmul_peak, operations, silent
from ensemble_peers import digits, job
from torch import nn

from audit.core.events import sgd
from audit.core.training import TrainingJob
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings


def opacus_mnist() -> nn.Module:
    """The network of Opacus' MNIST example."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def lenet() -> nn.Module:
    """LeNet-5 with averages and tanh."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10),
    )  # fmt: skip


def normalised() -> nn.Module:
    """Three convolutions with GroupNorm."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def wide() -> nn.Module:
    """The network of torch's MNIST example without its dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def problems() -> dict[str, TrainingJob]:
    """What is trained, by name."""

    def make_job(model: dict[str, Any], models: int, batch: int, steps: int) -> TrainingJob:
        return job(digits(image=True), model, models=models, batch=batch, steps=steps, optimizer=SGD)

    small, module = {"factory": "ensemble_peers:small_cnn"}, "compiled_networks"
    return {
        "small CNN, batch 64, N = 16": make_job(small, 16, 64, 20),
        "the same, N = 1": make_job(small, 1, 64, 80),
        "the same, batch 16, N = 16": make_job(small, 16, 16, 40),
        "the same, batch 256, N = 8": make_job(small, 8, 256, 12),
        "kind: cnn, batch 200, N = 8": make_job({"kind": "cnn"}, 8, 200, 12),
        "Opacus' MNIST example, batch 64, N = 8": make_job({"factory": f"{module}:opacus_mnist"}, 8, 64, 12),
        "LeNet-5, batch 64, N = 8": make_job({"factory": f"{module}:lenet"}, 8, 64, 12),
        "three convolutions with GroupNorm, batch 64, N = 4": make_job({"factory": f"{module}:normalised"}, 4, 64, 8),
        "torch's MNIST example, batch 64, N = 2": make_job({"factory": f"{module}:wide"}, 2, 64, 6),
    }


def spent(training: TrainingJob, settings: ScheduleSettings) -> float:
    """CPU seconds of a step of one model."""
    nothing = replace(training, mechanism=replace(training.mechanism, count=0))
    full = seconds(lambda: train(training, silent, settings)) - seconds(lambda: train(nothing, silent, settings))
    return max(full, 1e-9) / len(training.seeds) / training.steps


def show(name: str, training: TrainingJob, repeats: int) -> None:
    """Prints one row."""
    rounds = [(spent(training, ScheduleSettings()), spent(training, COMPILED)) for _ in range(repeats + 1)]
    rounds = rounds[1:]  # the first warms caches
    slow, fast = (statistics.median(side) for side in zip(*rounds, strict=True))
    ratios = sorted(first / second for first, second in rounds)
    share = operations(training) / fast / matmul_peak() / 1e9
    spread = f"{statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})"
    print(f"| {name} | {1e6 * slow:.0f} | {1e6 * fast:.0f} | {spread} | {share:.0%} |", flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{cpu_name()}, {options.threads} thread(s), torch {torch.__version__}, load {os.getloadavg()[0]:.1f}")
    print("| network | torch, us a model-step | compiled | ratio (range) | share of the product peak, compiled |")
    print("|---|---|---|---|---|")
    for name, item in problems().items():
        if not compiles(item):
            raise SystemExit(f"{name} cannot be compiled here: is there a C compiler?")
        show(name, item, options.repeats)
    name, item = next(iter(problems().items()))
    show(f"{name}, not private", replace(item, mechanism=sgd(sample_rate=item.sample_rate, steps=item.steps)), options.repeats)


if __name__ == "__main__":
    main()
