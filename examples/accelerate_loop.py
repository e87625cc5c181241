"""Audit a training loop of Accelerate: coins decide which canaries join the data, one call attacks the unwrapped model.

    pip install accelerate
    python examples/accelerate_loop.py

Lines that end in `# audit` are what the audit adds to a training.
"""

from __future__ import annotations

import numpy as np
import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

import audit


def main() -> None:
    """Train on digits and 200 of 400 mislabelled ones, and prove a lower bound on epsilon."""
    torch.manual_seed(0)
    inputs, labels = load_digits(return_X_y=True)
    inputs = (inputs / 16).astype(np.float32)
    data = TensorDataset(torch.tensor(inputs[400:]), torch.tensor(labels[400:]))

    x, y = inputs[:400], np.random.default_rng(1).integers(10, size=400)  # audit
    coins = audit.draw_coins(400)  # audit
    data = ConcatDataset([data, TensorDataset(torch.tensor(x[coins]), torch.tensor(y[coins]))])  # audit

    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=32, shuffle=True))
    for _ in range(30):
        for batch, target in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(batch), target))
            optimizer.step()

    audit.check(accelerator.unwrap_model(model), (x[coins], y[coins]), (x[~coins], y[~coins]), coins=coins)  # audit


if __name__ == "__main__":
    main()
