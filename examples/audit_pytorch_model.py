"""Audit a PyTorch classifier: which of its training records do its outputs give away, and what does that prove of epsilon?

    python examples/audit_pytorch_model.py

A fair coin decides for each record of scikit-learn's handwritten digits whether the model is trained on it. Attacks then read
only the outputs of the trained model. Because membership was decided by coins, their success proves a lower bound on epsilon.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import audit


def main() -> None:
    """Train a classifier on the records that coins chose, audit it, and write report.pdf and report.json."""
    torch.manual_seed(0)
    inputs, labels = load_digits(return_X_y=True)
    inputs = (inputs / 16).astype(np.float32)

    coins = audit.draw_coins(len(inputs))  # drawn before the training, kept secret until the audit
    model = train(inputs[coins], labels[coins])

    members, nonmembers = (inputs[coins], labels[coins]), (inputs[~coins], labels[~coins])
    result = audit.check(model, members, nonmembers, coins=coins)  # prints what it found in a few lines

    for row in result.attacks:
        if row.auc is not None:
            print(f"{row.attack:>20}: AUC {row.auc:.3f}, between {row.auc_lower:.3f} and {row.auc_upper:.3f}")
    for name in ("report.pdf", "report.json"):
        print(f"written: {result.save(name)}")


def train(inputs: np.ndarray, labels: np.ndarray) -> nn.Module:
    """Return a small network that was trained for 200 steps without privacy."""
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.tensor(inputs), torch.tensor(labels)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


if __name__ == "__main__":
    main()
