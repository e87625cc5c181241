"""How long federated trainings take beside plain programs for the same, in CPU seconds on one thread.

    python benchmarks/federated_speed.py                    # 50 rounds, 100 of 1,000 clients, five steps, 9,946 parameters
    python benchmarks/federated_speed.py --federations 32

Prints the time of the batched trainer by torch's kernels and by compiled steps (`compile: on`), of a loop over clients by
autograd (a few rounds of it, times the rest) and of the bare products of the batched training written out by hand, and the
ratios of the last two to the compiled one. They are run in turn, because other work on the machine slows all of them. The first
training of a process, which also imports, is left out.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch.nn import functional as F

from audit.core.access import Access
from audit.core.canaries import Canaries, CoordinateGradients
from audit.core.data import Dataset, Records
from audit.core.events import dp_sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.trainers.federated import FederatedTrainer

CLIENTS, TAKING_PART, STEPS, BATCH, RATE = 1000, 100, 5, 10, 0.1
INPUTS, HIDDEN, CLASSES, HELD = 196, 48, 10, 60


def dataset() -> Dataset:
    """Return 60 records of noise for each of 1,000 clients, as large as MNIST at 14 x 14."""
    random = np.random.default_rng(0)
    train, few = (
        Records(inputs=random.normal(size=(n, INPUTS)).astype(np.float32), labels=random.integers(0, CLASSES, n))
        for n in (CLIENTS * HELD, 10)
    )
    return Dataset(
        name="noise",
        source="drawn",
        sha256="0" * 64,
        classes=CLASSES,
        train=train,
        pool=few,
        test=few,
        pool_index=np.arange(10),
    )


def batched(data: Dataset, federations: int, rounds: int, compiled: bool = False) -> None:
    """Train with clipping and central noise."""
    job = TrainingJob(
        dataset=data,
        canaries=Canaries(kind="none", description="", payload=CoordinateGradients(coordinates=np.zeros(1, dtype=np.int64))),
        included=np.zeros((federations, 1), dtype=bool),
        seeds=tuple(Seed(7).child("federation", index) for index in range(federations)),
        mechanism=dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=TAKING_PART / CLIENTS, steps=rounds, unit="client"),
        model={"kind": "mlp", "hidden": [HIDDEN]},
        optimizer={"kind": "sgd", "learning_rate": 1.0},
        access=Access.FINAL_MODEL,
    )
    options = {"local_steps": STEPS, "local_batch": BATCH, "local_learning_rate": RATE, "split": "uniform"}
    options["compile"] = "on" if compiled else "off"
    FederatedTrainer(clients=CLIENTS, **options).fit(job, lambda steps: None)


def loop(data: Dataset, rounds: int) -> None:
    """Train the same by one client after the other, with autograd."""
    random = np.random.default_rng(1)
    inputs, labels = torch.from_numpy(data.train.inputs.copy()), torch.from_numpy(data.train.labels.copy())
    module = torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES))
    parameters = list(module.parameters())
    for _ in range(rounds):
        before = [parameter.detach().clone() for parameter in parameters]
        total = [torch.zeros_like(parameter) for parameter in before]
        for client in random.choice(CLIENTS, TAKING_PART, replace=False):
            with torch.no_grad():
                for parameter, value in zip(parameters, before, strict=True):
                    parameter.copy_(value)
            for _ in range(STEPS):
                rows = HELD * client + random.choice(HELD, BATCH, replace=False)
                gradients = torch.autograd.grad(F.cross_entropy(module(inputs[rows]), labels[rows]), parameters)
                with torch.no_grad():
                    for parameter, gradient in zip(parameters, gradients, strict=True):
                        parameter.sub_(gradient, alpha=RATE)
            update = [old - new.detach() for old, new in zip(before, parameters, strict=True)]
            factor = min(1.0, 1 / float(torch.cat([part.flatten() for part in update]).norm()))
            total = [full + factor * part for full, part in zip(total, update, strict=True)]
        with torch.no_grad():
            for parameter, value, full in zip(parameters, before, total, strict=True):
                parameter.copy_(value - (full + torch.randn_like(full)) / TAKING_PART)


def products(data: Dataset, rounds: int) -> None:
    """Do the matrix products of the training with 100 clients at once, without clipping, noise or sampling by coins."""
    inputs = torch.from_numpy(data.train.inputs.copy()).view(CLIENTS, HELD, INPUTS)
    labels = torch.from_numpy(data.train.labels.copy()).view(CLIENTS, HELD)
    shapes = ((HIDDEN, INPUTS), (1, HIDDEN), (CLASSES, HIDDEN), (1, CLASSES))
    model = [torch.randn(shape) * 0.05 for shape in shapes]
    for _ in range(rounds):
        chosen = torch.randperm(CLIENTS)[:TAKING_PART, None]
        first, first_bias, last, last_bias = (value.expand(TAKING_PART, *value.shape).clone() for value in model)
        for _ in range(STEPS):
            rows = torch.randint(0, HELD, (TAKING_PART, BATCH))
            batch, truth = inputs[chosen, rows], labels[chosen, rows].unsqueeze(2)
            hidden = torch.baddbmm(first_bias, batch, first.transpose(1, 2)).relu_()
            slopes = torch.baddbmm(last_bias, hidden, last.transpose(1, 2)).softmax(2)
            slopes.scatter_add_(2, truth, torch.full((1, 1, 1), -1.0).expand_as(truth)).mul_(-RATE / BATCH)
            inner = torch.bmm(slopes, last) * (hidden > 0)
            last.baddbmm_(slopes.transpose(1, 2), hidden)
            last_bias.add_(slopes.sum(1, keepdim=True))
            first.baddbmm_(inner.transpose(1, 2), batch)
            first_bias.add_(inner.sum(1, keepdim=True))
        model = [value.mean(0) for value in (first, first_bias, last, last_bias)]


def seconds(work: Callable[[], None]) -> float:
    """Return how many CPU seconds of this process it takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print a line for each turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--federations", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data, few = dataset(), max(1, options.rounds // 10)
    for work in (
        lambda: batched(data, 1, 1),
        lambda: batched(data, 1, 1, compiled=True),
        lambda: loop(data, 1),
        lambda: products(data, 1),
    ):
        work()
    print(f"{platform.machine()}, one thread, load {os.getloadavg()[0]:.1f}")
    print(f"{options.federations} federations, {options.rounds} rounds")
    for _ in range(options.turns):
        by_torch = seconds(lambda: batched(data, options.federations, options.rounds))
        compiled = seconds(lambda: batched(data, options.federations, options.rounds, compiled=True))
        by_loop = seconds(lambda: loop(data, few)) * options.rounds / few * options.federations
        bare = seconds(lambda: products(data, few)) * options.rounds / few * options.federations
        print(
            f"torch {by_torch:.2f} s, compiled {compiled:.2f} s, loop {by_loop:.2f} s ({by_loop / compiled:.1f}), "
            f"products {bare:.2f} s ({bare / compiled:.2f}); torch over products {by_torch / bare:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
