"""The KKT attack on points of the plane and on digits, and on fresh records: a section of docs/evidence/reconstruction.md.

    OMP_NUM_THREADS=1 python benchmarks/kkt.py

`reconstruction.py` calls `section`. For each record, trained on or not, the distance to the nearest candidate counts; a set of
candidates that knows nothing of the records is as near to either kind.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from kkt_attack import StationaryRecords, TrainingPastZeroLoss
from sklearn.datasets import load_digits
from torch import Tensor

from audit.stats.bounds import roc

SEEDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Records `(n, features)` to train on, their classes of -1 and 1, and records of the same law that are not trained on."""

    records: Tensor
    classes: Tensor
    outsiders: Tensor


def ring(count: int, seed: int) -> Tensor:
    """Points of the plane in a ring, one in each of `count` sectors."""
    generator, kind = torch.Generator().manual_seed(seed), {"dtype": torch.float64}
    places = torch.arange(count) + 0.8 * torch.rand(count, generator=generator, **kind) + torch.rand(1, generator=generator)
    radii = 0.6 + 0.4 * torch.rand(count, generator=generator, **kind)
    angles = places * 2 * math.pi / count
    return torch.stack([angles.cos() * radii, angles.sin() * radii], dim=1)


def plane(count: int, seed: int) -> Sample:
    """A ring, its classes in turn; the others are 20 fresh rings."""
    classes = torch.ones(count, dtype=torch.float64)
    classes[1::2] = -1
    peers = torch.cat([ring(count, 1000 + 100 * seed + index) for index in range(20)])
    return Sample(records=ring(count, seed), classes=classes, outsiders=peers)


def digits(count: int, seed: int) -> Sample:
    """Odd and even digits less the mean of 797 public ones: less their own, zeros alone would be nearer to them."""
    inputs, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(inputs))
    values, classes = torch.tensor(inputs[order]) / 16, torch.tensor(labels[order] % 2 * 2.0 - 1)
    values = values - values[1000:].mean(dim=0)
    return Sample(records=values[:count], classes=classes[:count], outsiders=values[count:1000])


def figures(sample: Sample, training: TrainingPastZeroLoss, attack: StationaryRecords, seed: int) -> list[float]:
    """Residual, median distances of records and others, AUC, and the share of records nearer than the nearest of the others."""
    generator = torch.Generator().manual_seed(seed)
    network = training.network(sample.records, sample.classes, generator)
    result = attack.reconstruct(network, -1.0, 1.0, torch.Generator().manual_seed(seed))
    near, far = (torch.cdist(part, result.heaviest()).min(dim=1).values.numpy() for part in (sample.records, sample.outsiders))
    return [
        result.residual,
        float(np.median(near)),
        float(np.median(far)),
        float(roc.auc(-near, -far)),
        float((near < far.min()).mean()),
    ]


def section() -> list[str]:
    """Lines of the page."""
    settings = [
        (
            "10 points of the plane, 200 units",
            lambda seed: plane(10, seed),
            TrainingPastZeroLoss(units=200, steps=15_000),
            StationaryRecords(candidates=40),
        ),
        (
            "20 points of the plane, 400 units",
            lambda seed: plane(20, seed),
            TrainingPastZeroLoss(units=400, steps=30_000, scale=1.0),
            StationaryRecords(candidates=80),
        ),
        (
            "20 digits of 64 pixels, 200 units",
            lambda seed: digits(20, seed),
            TrainingPastZeroLoss(units=200, steps=5_000, scale=0.1),
            StationaryRecords(candidates=40, sharpness=2.0, spread=0.1),
        ),
    ]
    lines = [
        "| network | unexplained | median distance, records | never seen | AUC | nearer than all never seen |",
        "|---|---|---|---|---|---|",
    ]
    for name, sample, training, attack in settings:
        began = time.process_time()
        rows = np.array([figures(sample(seed), training, attack, seed) for seed in range(SEEDS)])
        first, near, far, area, share = rows.mean(axis=0)
        low, high = rows[:, 3].min(), rows[:, 3].max()
        lines.append(f"| {name} | {first:.3f} | {near:.3f} | {far:.3f} | {area:.2f} ({low:.2f} to {high:.2f}) | {share:.0%} |")
        print(lines[-1], f"{time.process_time() - began:.0f} CPU s", flush=True)
    return lines


if __name__ == "__main__":
    section()
