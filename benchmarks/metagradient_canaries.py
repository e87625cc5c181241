"""Canaries whose pixels are moved by the gradient of a whole private training, beside those that they begin as.

    python benchmarks/metagradient_canaries.py --mnist FOLDER [--seeds 6] [--rounds 60] [--count 400]

MNIST, 1000 records, an MLP, DP-SGD at epsilon 8, one black-box run, scorer `loss`. Each round draws coins, weights, batches and
noise of its own, trains through all steps, and moves the canaries to where members and nonmembers are told apart more often
(arXiv 2507.15836). The rehearsals never see the coins of the audit. Both kinds of a start meet the same seed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import clipbkd_labels
import numpy as np
import torch
from torch import Tensor

from attacks.canaries._pool_records import ClipBkd, Mislabelled, OutOfDistribution
from audit.core.canaries import Canaries
from audit.core.data import Array, Dataset, Records
from audit.core.seeds import Seed

HIDDEN, RATE, SHARE, STEPS, NOISE = 32, 2.0, 0.25, 200, 2.3
STARTS: dict[str, Any] = {"mislabelled": Mislabelled(), "noise": OutOfDistribution(), "unused": ClipBkd(norm=2.0)}
MODEL = f"{{kind: mlp, hidden: [{HIDDEN}]}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Canaries of a known kind, moved by so many rounds; 0 leaves them as they are."""

    start: str
    rounds: int = 0
    speed: float = 0.1  # of Adam, in units of a pixel's spread

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        canaries: Canaries = STARTS[self.start].make(dataset, count, parameters, seed)
        payload: Any = canaries.payload
        inputs = _moved(self, dataset, payload.records, seed) if self.rounds else payload.records.inputs
        return replace(canaries, payload=replace(payload, records=replace(payload.records, inputs=inputs)))


def _moved(start: Start, dataset: Dataset, records: Records, seed: Seed) -> Array:
    random = torch.Generator().manual_seed(int(seed.child("metagradients").numpy().integers(2**31)))
    shared, labels = _flat(dataset.train.inputs), torch.as_tensor(np.concatenate([dataset.train.labels, records.labels]))
    canaries = _flat(records.inputs).requires_grad_(True)
    optimizer = torch.optim.Adam([canaries], lr=start.speed)
    for _ in range(start.rounds):
        coins = torch.rand(len(canaries), generator=random) < 0.5
        scores = _rehearse(torch.cat([shared, canaries]), labels, coins, random)
        members, others = scores[coins], scores[~coins]
        width = scores.detach().std() / 2
        told_apart = torch.sigmoid((members[:, None] - others) / width).mean()  # a smooth AUC
        optimizer.zero_grad()
        (-told_apart).backward()
        optimizer.step()
    return np.asarray(canaries.detach().numpy().reshape(records.inputs.shape))


def _flat(inputs: Array) -> Tensor:
    return torch.tensor(inputs.reshape(len(inputs), -1), dtype=torch.float32)


def _rehearse(inputs: Tensor, labels: Tensor, coins: Tensor, random: torch.Generator) -> Tensor:
    """`(m,)` log-probability of each canary's label after a DP-SGD training with those that coins choose; differentiable."""
    shared, width, classes = len(inputs) - len(coins), inputs.shape[1], int(labels.max()) + 1
    present = torch.cat([torch.ones(shared, dtype=torch.bool), coins])
    wanted = torch.nn.functional.one_hot(labels, classes).float()
    shapes = ((width, HIDDEN), (HIDDEN,), (HIDDEN, classes), (classes,))
    layers = [torch.randn(shape, generator=random) / shape[0] ** 0.5 for shape in shapes]
    for _ in range(STEPS):
        rows = torch.nonzero(present & (torch.rand(len(inputs), generator=random) < SHARE))[:, 0]
        sums = _clipped_sums(layers, inputs[rows], wanted[rows])
        layers = [
            layer - RATE / (SHARE * shared) * (total + NOISE * torch.randn(total.shape, generator=random))
            for layer, total in zip(layers, sums, strict=True)
        ]
    outputs: Tensor = _hidden(layers, inputs[shared:]).relu() @ layers[2] + layers[3]
    return outputs.log_softmax(1).gather(1, labels[shared:, None])[:, 0]


def _hidden(layers: list[Tensor], inputs: Tensor) -> Tensor:
    return inputs @ layers[0] + layers[1]


def _clipped_sums(layers: list[Tensor], inputs: Tensor, wanted: Tensor) -> list[Tensor]:
    """Sums of each record's gradients, clipped to norm 1 over all layers, in closed form so that autograd goes through."""
    before = _hidden(layers, inputs)
    after = before.relu()
    above = (after @ layers[2] + layers[3]).softmax(1) - wanted
    below = (above @ layers[2].T) * (before > 0)
    squares = (1 + after.square().sum(1)) * above.square().sum(1) + (1 + inputs.square().sum(1)) * below.square().sum(1)
    factors = squares.clamp_min(1e-12).rsqrt().clamp_max(1.0)[:, None]
    above, below = above * factors, below * factors
    return [inputs.T @ below, below.sum(0), after.T @ above, above.sum(0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--count", type=int, default=400)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| canaries | any mechanism | family gdp | AUC |\n|---|---|---|---|")
    for kind in STARTS:
        for rounds in (0, options.rounds):
            rows = []
            for seed in range(1, options.seeds + 1):
                canaries = f"{{kind: 'metagradient_canaries:Start', start: {kind}, rounds: {rounds}}}"
                place = {"folder": options.mnist, "model": MODEL, "count": options.count, "rate": RATE, "steps": STEPS}
                rows.append(clipbkd_labels.audit(clipbkd_labels.CONFIG.format(seed=seed, canaries=canaries, **place)))
            values = np.array(rows)
            errors = values.std(axis=0, ddof=1) / len(values) ** 0.5
            cells = [f"{mean:.2f} ({error:.2f})" for mean, error in zip(values.mean(axis=0), errors, strict=True)]
            print(f"| {kind}, {rounds} rounds | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
