"""Audit a training by Lightning: a callback plants canaries by coins before the training, and attacks the model after it.

    pip install lightning
    python examples/lightning_module.py

Lines that end in `# audit` are what the audit adds to a training.
"""

from __future__ import annotations

import logging
import warnings

import lightning
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

import audit


class Classifier(lightning.LightningModule):
    """A small network trained by Adam."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.layers(x)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
        """Return the loss of a batch."""
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimiser."""
        return torch.optim.Adam(self.parameters(), lr=3e-3)


class Canaries(lightning.Callback):  # audit
    """Attack the model on records that coins had planted, when a training ends."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:  # audit
        self.x, self.y, self.coins = x, y, audit.draw_coins(len(y))  # audit
        self.planted = TensorDataset(torch.tensor(x[self.coins]), torch.tensor(y[self.coins]))  # audit

    def on_fit_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:  # audit
        """Print what the attacks find."""
        members, others = ((self.x[side], self.y[side]) for side in (self.coins, ~self.coins))  # audit
        audit.check(module, members, others, coins=self.coins)  # audit


def main() -> None:
    """Train on digits and 200 of 400 mislabelled ones, and prove a lower bound on epsilon."""
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(0)
    inputs, labels = load_digits(return_X_y=True)
    inputs = (inputs / 16).astype(np.float32)
    data = TensorDataset(torch.tensor(inputs[400:]), torch.tensor(labels[400:]))

    canaries = Canaries(inputs[:400], np.random.default_rng(1).integers(10, size=400))  # audit
    loader = DataLoader(ConcatDataset([data, canaries.planted]), batch_size=32, shuffle=True)  # audit
    trainer = lightning.Trainer(
        max_epochs=30, callbacks=[canaries], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Classifier(), loader)


if __name__ == "__main__":
    main()
