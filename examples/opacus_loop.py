"""Check an Opacus training loop: one step of its optimiser, and the batches that the loop really drew.

    pip install 'epsilon-audit[opacus]'
    python examples/opacus_loop.py

`audit.check_optimizer` calls one step on crafted batches and tests that clipping and noise are what the accounting claims.
`audit.record` watches the loop: how many steps it takes, and whether its batches are Poisson samples of the claimed rate.
"""

from __future__ import annotations

import warnings

import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import audit

BATCH_SIZE, EPOCHS, NOISE_MULTIPLIER, CLIP_NORM, DELTA = 64, 10, 1.5, 1.0, 1e-5


def main() -> None:
    """Check one step, train under observation, check the loop, and compare two accountants on what was run."""
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", message="Secure RNG turned off|Full backward hook is firing")
    inputs, labels = load_breast_cancer(return_X_y=True)
    inputs = torch.tensor(StandardScaler().fit_transform(inputs), dtype=torch.float32)
    data = TensorDataset(inputs, torch.tensor(labels))
    criterion = nn.CrossEntropyLoss()
    model, optimizer, loader, engine = private(data)

    rate = 1 / len(loader)
    divisor = optimizer.expected_batch_size
    sample = (inputs[:16].numpy(), labels[:16])
    claim = {"noise_multiplier": NOISE_MULTIPLIER, "clip_norm": CLIP_NORM, "divisor": divisor}
    step = audit.check_optimizer(model, optimizer, criterion, sample, **claim)
    print(f"one step: {len(step.findings)} findings, {len(step.failures)} failed, {len(step.weaknesses)} weak")
    for finding in (*step.failures, *step.weaknesses):
        print(f"  {finding.check}: {finding.message}")

    with audit.record(loader, engine.accountant) as log:
        train(model, optimizer, loader, criterion)
    print("the loop:")
    for finding in log.check(sample_rate=rate, steps=EPOCHS * len(loader)):
        print(f"  {finding.check} {finding.status}: {finding.message}")

    event = audit.dp_sgd(noise_multiplier=NOISE_MULTIPLIER, clip_norm=CLIP_NORM, sample_rate=rate, steps=log.steps)
    print(f"Opacus claims epsilon {engine.get_epsilon(DELTA):.2f} at delta {DELTA:g}")
    print("what accountants state for the steps that were taken:")
    costs = audit.accountant.epsilon(event, delta=DELTA, accountants=["rdp", "pld"])
    for row in costs.rows:
        print(f"  {row.accountant}: {row.epsilon:.2f}")
    print(f"  true epsilon: between {costs.lower:.3f} and {costs.upper:.3f}")


def private(data: TensorDataset) -> tuple:
    """Return model, optimiser, loader and engine as Opacus makes them."""
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    engine = PrivacyEngine(accountant="prv")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(data, batch_size=BATCH_SIZE),
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=CLIP_NORM,
    )
    return model, optimizer, loader, engine


def train(model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader, criterion: nn.Module) -> None:
    """Run an ordinary training loop; nothing in it knows of the audit."""
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
