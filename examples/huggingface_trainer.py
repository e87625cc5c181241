"""Audit what a Hugging Face `Trainer` trained: coins decide which canaries join its data set, one call attacks the model.

    pip install transformers accelerate
    python examples/huggingface_trainer.py

Lines that end in `# audit` are what the audit adds to a training.
"""

from __future__ import annotations

import tempfile

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import ConcatDataset, StackDataset, Subset
from transformers import Trainer, TrainingArguments

import audit


class Classifier(nn.Module):
    """A small network that returns its loss and logits, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Return logits, and the loss if labels are given."""
        logits = self.layers(x)
        return {"logits": logits} if labels is None else {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def main() -> None:
    """Plant 400 mislabelled digits by coins, train, and prove a lower bound on epsilon."""
    torch.manual_seed(0)
    inputs, labels = load_digits(return_X_y=True)
    inputs = (inputs / 16).astype(np.float32)
    x, y = inputs[400:], labels[400:]
    data = StackDataset(x=torch.tensor(x), labels=torch.tensor(y))

    canaries = inputs[:400], np.random.default_rng(1).integers(10, size=400)  # audit
    coins = audit.draw_coins(400)  # audit
    planted = StackDataset(x=torch.tensor(canaries[0]), labels=torch.tensor(canaries[1]))  # audit
    data = ConcatDataset([data, Subset(planted, np.flatnonzero(coins).tolist())])  # audit

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=30, per_device_train_batch_size=32, learning_rate=3e-3, report_to=[],
            use_cpu=True, save_strategy="no", logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(model=Classifier(), args=arguments, train_dataset=data)
        trainer.train()

    members, others = ((canaries[0][side], canaries[1][side]) for side in (coins, ~coins))  # audit
    audit.check(
        lambda batch: trainer.model(torch.tensor(batch))["logits"].detach().numpy(), members, others, coins=coins
    )  # audit


if __name__ == "__main__":
    main()
