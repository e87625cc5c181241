"""Speed of the ensemble engine beside Opacus, one model after another, in the same run.

    python benchmarks/ensemble.py [--problems mlp,cnn64,cnn256,lira,scaling] [--scale 1.0] [--repeats 5] [--threads 1]

Same data, architecture, first weights, Poisson batches and steps on both sides; noise from each side's own stream.
Times are CPU seconds of this process (`time.process_time`) and wall seconds; medians over interleaved repeats.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import resource
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.game import Access
from audit.core.mechanism import DpSgd, NonPrivate
from audit.core.protocols import TrainingJob
from audit.core.records import Canaries, Dataset, Records, TrainedModels
from audit.core.seeds import Seed
from audit.training.ensemble import train
from audit.training.models import initialised
from audit.training.observe import logits
from audit.training.sampling import EnsembleSampler, Law

warnings.filterwarnings("ignore")


def small_cnn() -> nn.Module:
    """The 7 146-parameter network: 5x5 stride 2 (8), 3x3 stride 2 (16), linear; no pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=0),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 36, 10),
    )


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One row of the table."""

    name: str
    job: TrainingJob


@dataclass(frozen=True, kw_only=True)
class Taken:
    cpu: float
    wall: float


def digits(image: bool) -> Dataset:
    """scikit-learn's digits, as 64 features or enlarged to 1x28x28."""
    raw = load_digits()
    inputs = (raw.data / 16.0).astype(np.float32)
    if image:
        large = np.kron(inputs.reshape(-1, 8, 8), np.ones((1, 3, 3), np.float32))
        inputs = np.pad(large, ((0, 0), (2, 2), (2, 2)))[:, None]
    order = np.random.default_rng(0).permutation(len(inputs))
    inputs, labels = inputs[order], raw.target[order].astype(np.int64)

    def part(start: int, stop: int | None) -> Records:
        return Records(inputs=inputs[start:stop], labels=labels[start:stop])

    return Dataset(
        name="digits",
        source="scikit-learn",
        sha256="",
        classes=10,
        train=part(0, 1280),
        pool=part(1280, 1300),
        test=part(1300, None),
        pool_index=np.arange(20),
    )


def purchase_like(records: int = 8000) -> Dataset:
    """600 binary features around 100 class centres, as in the published comparisons of attack suites."""
    generator = np.random.default_rng(0)
    centres = generator.random((100, 600)) < 0.5
    labels = generator.integers(0, 100, records + 2000)
    flips = generator.random((records + 2000, 600)) < 0.38
    inputs = (centres[labels] ^ flips).astype(np.float32)

    def part(start: int, stop: int) -> Records:
        return Records(inputs=inputs[start:stop], labels=labels[start:stop])

    return Dataset(
        name="purchase-like",
        source="drawn",
        sha256="",
        classes=100,
        train=part(0, 0),
        pool=part(0, records),
        test=part(records, records + 2000),
        pool_index=np.arange(records),
    )


def job(
    dataset: Dataset, model: dict, *, models: int, batch: int, steps: int, optimizer: dict, private: bool = True
) -> TrainingJob:
    population = len(dataset.train) + len(dataset.pool)
    rate = batch / population
    mechanism = (
        DpSgd(noise_multiplier=0.7, clip_norm=1.0, sample_rate=rate, steps=steps)
        if private
        else NonPrivate(sample_rate=rate, steps=steps)
    )
    return TrainingJob(
        dataset=dataset,
        canaries=Canaries(kind="held_out", description="", records=dataset.pool),
        included=np.random.default_rng(1).random((models, len(dataset.pool))) < 0.5,
        seeds=tuple(Seed(0).child("model", index) for index in range(models)),
        mechanism=mechanism,
        model=model,
        optimizer=optimizer,
        access=Access.FINAL_MODEL,
    )


def silent(_: int) -> None:
    """No progress bar."""


@contextmanager
def measured(into: list[Taken]) -> Iterator[None]:
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    into.append(Taken(cpu=time.process_time() - cpu, wall=time.perf_counter() - wall))


def batches(one: TrainingJob, model: int) -> Iterator[np.ndarray]:
    """The batches that our engine draws for one model."""
    law = Law(population=len(one.dataset.train) + len(one.canaries), rate=one.mechanism.sample_rate)
    sampler = EnsembleSampler(law, (one.seeds[model].child("batches"),), one.included[model : model + 1], as_gradients=False)
    while True:
        block = sampler.block()
        for step in range(law.block_steps):
            yield block.index[step, 0, : block.counts[step, 0]]


def opacus_loop(one: TrainingJob, mode: str, models: int) -> list[nn.Module]:
    """Opacus over `models` models, one after another, in its fastest plain form: no loader, no engine, no records kept."""
    from opacus import GradSampleModule
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer
    from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    inputs, labels = tensors(one)
    mechanism = one.mechanism
    assert isinstance(mechanism, DpSgd)
    done = []
    for index in range(models):
        plain = fresh(one, index)
        options = {
            "noise_multiplier": mechanism.noise_multiplier,
            "max_grad_norm": mechanism.clip_norm,
            "expected_batch_size": mechanism.sample_rate * len(inputs),
        }
        inner = torch.optim.SGD(plain.parameters(), lr=one.optimizer["learning_rate"])
        if mode == "ghost":
            module = GradSampleModuleFastGradientClipping(plain, max_grad_norm=mechanism.clip_norm, use_ghost_clipping=True)
            optimizer = DPOptimizerFastGradientClipping(inner, **options)
            criterion = DPLossFastGradientClipping(module, optimizer, nn.CrossEntropyLoss())
        else:
            module = GradSampleModule(plain)
            optimizer = DPOptimizer(inner, **options)
            criterion = nn.CrossEntropyLoss()
        drawn = batches(one, index)
        for _ in range(mechanism.steps):
            rows = torch.from_numpy(next(drawn))
            optimizer.zero_grad(set_to_none=True)
            criterion(module(inputs[rows]), labels[rows]).backward()
            optimizer.step()
        done.append(plain)
    return done


def plain_loop(one: TrainingJob, models: int) -> list[nn.Module]:
    """Non-private training, one model after another, with torch.optim."""
    inputs, labels = tensors(one)
    done = []
    for index in range(models):
        module = fresh(one, index)
        maker = torch.optim.Adam if one.optimizer["kind"] == "adam" else torch.optim.SGD
        optimizer = maker(module.parameters(), lr=one.optimizer["learning_rate"])
        drawn = batches(one, index)
        for _ in range(one.mechanism.steps):
            rows = torch.from_numpy(next(drawn))
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(module(inputs[rows]), labels[rows]).backward()
            optimizer.step()
        done.append(module)
    return done


def fresh(one: TrainingJob, index: int) -> nn.Module:
    return initialised(one.model, one.dataset.train.inputs.shape[1:], one.dataset.classes, one.seeds[index].child("init"))


def tensors(one: TrainingJob) -> tuple[Tensor, Tensor]:
    inputs = np.concatenate([one.dataset.train.inputs, one.canaries.records.inputs])
    labels = np.concatenate([one.dataset.train.labels, one.canaries.records.labels])
    return torch.from_numpy(inputs), torch.from_numpy(labels)


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
    """Shadow training of the published comparison: MLP 600-128-100 tanh, Adam 1e-3, batch 64, 10 epochs, 17 models."""
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
    cpu, wall = (statistics.median(getattr(t, name) for t in taken) for name in ("cpu", "wall"))
    member = (outputs.argmax(-1) == dataset.pool.labels)[one.included].mean()
    print(
        f"\n17-model problem: {models} models, {one.mechanism.steps} steps, {repeats} repeats: "
        f"{cpu:.1f} s CPU, {wall:.1f} s wall; member accuracy {member:.3f}, "
        f"test {accuracy_of(one, done):.3f}, peak {peak_memory():.2f} GB"
    )


def scaling(repeats: int, steps: int) -> None:
    """Time a model-step against N, width and batch."""
    dataset = digits(image=False)
    print("\nscaling of the DP-SGD step (CPU us a model-step)")
    for models in (1, 4, 16, 64, 256):
        report("N", models, dataset, models, 64, 128, repeats, max(4, steps * 16 // max(models, 16)))
    for width in (16, 64, 256, 1024):
        report("width", width, dataset, 16, width, 128, repeats, max(4, steps * 64 // max(width, 64)))
    for batch in (16, 64, 256, 1024):
        report("batch", batch, dataset, 16, 64, batch, repeats, max(4, steps * 64 // max(batch, 64)))


def report(  # noqa: PLR0917
    what: str, value: int, dataset: Dataset, models: int, width: int, batch: int, repeats: int, steps: int
) -> None:
    one = job(
        dataset,
        {"kind": "mlp", "hidden": [width]},
        models=models,
        batch=batch,
        steps=steps,
        optimizer={"kind": "sgd", "learning_rate": 0.5},
    )
    taken: list[Taken] = []
    for _ in range(repeats):
        with measured(taken):
            train(one, silent)
    cpu = statistics.median(t.cpu for t in taken) / models / steps
    multiplications = batch * (64 * width * 2 + width * 10 * 3)
    speed = 2 * multiplications / cpu / 1e9
    print(f"  {what:6s}{value:6d}  {1e6 * cpu:9.0f} us  {speed:6.1f} GFLOP/s  peak {peak_memory():.2f} GB")


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
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--problems", default="mlp,cnn64,cnn256,lira,scaling")
    options.add_argument("--scale", type=float, default=1.0, help="multiplies models and steps; 0.2 for a quick look")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--threads", type=int, default=1)
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
            model = {"factory": "__main__:small_cnn"}
            made = job(
                digits(image=True), model, models=max(2, int(16 * scale)), batch=batch,
                steps=max(3, int(20 * scale)), optimizer=sgd,
            )  # fmt: skip
            beside_opacus(
                Problem(name=f"CNN of 7 146 parameters, batch {batch}", job=made), chosen.repeats, max(1, int(4 * scale))
            )
        elif name == "lira":
            lira(max(1, chosen.repeats // 2), max(2, int(17 * min(scale, 1.0))), max(1, int(10 * scale)))
        elif name == "scaling":
            scaling(chosen.repeats, max(5, int(50 * scale)))
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
