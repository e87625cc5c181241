"""Random set-ups of Opacus that are right: models, modes, clipping, losses and optimisers that step checks may never accuse.

python -m tests.step_checks.opacus_setups 500 [LOG]

A log keeps one line for each set-up that was checked; with the same log, a run continues if the last one ended.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from audit.step_checks.findings import StepReport
from audit.step_checks.run import check_optimizer

COUNT, FEATURES, WORDS, CLASSES = 16, 16, 12, 3
ACTIVATIONS = (nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU, nn.Softplus, nn.ELU)
OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "SGD": torch.optim.SGD,
    "momentum": lambda values, lr: torch.optim.SGD(values, lr=lr, momentum=0.9, nesterov=True),
    "decay": lambda values, lr: torch.optim.SGD(values, lr=lr, weight_decay=0.01),
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
    "RMSprop": torch.optim.RMSprop,
    "Adagrad": torch.optim.Adagrad,
    "NAdam": torch.optim.NAdam,
}
MODELS = ("layers", "normalised", "pictures", "lines", "words", "recurrent", "shortcut", "shared", "frozen", "low rank")
MODES = ("hooks", "functorch", "ghost", "ew")
LOSSES = ("cross entropy", "smoothed", "squares", "binary")


class Shortcut(nn.Module):
    """A block that adds its input."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.inner(x)
        return result


class Words(nn.Module):
    """An embedding, a recurrent layer or a mean, and a head."""

    def __init__(self, width: int, layer: str) -> None:
        super().__init__()
        from opacus import layers

        self.table, self.head = nn.Embedding(WORDS, width), nn.Linear(width, CLASSES)
        self.layer = None if layer == "mean" else getattr(layers, layer)(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        values = self.table(x)
        result: Tensor = self.head(values.mean(1) if self.layer is None else self.layer(values)[0][:, -1])
        return result


class LowRank(nn.Module):
    """A frozen layer with a trained difference of low rank."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.base, self.down = nn.Linear(FEATURES, CLASSES), nn.Linear(FEATURES, rank, bias=False)
        self.up = nn.Linear(rank, CLASSES, bias=False)
        self.base.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.base(x) + self.up(self.down(x))
        return result


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One right set-up, by its choices."""

    seed: int
    model: str
    mode: str
    clipping: str
    loss: str
    optimizer: str
    noise_multiplier: float
    clip_norm: float
    rate: float

    def check(self) -> StepReport:
        """Return what the step checks find."""
        from opacus import PrivacyEngine

        torch.manual_seed(self.seed)
        module = make_model(self.model, np.random.default_rng(self.seed)).train()
        inputs, labels = self._sample()
        values = [value for value in module.parameters() if value.requires_grad]
        norm: Any = self.clip_norm
        if self.clipping == "per_layer":
            norm = [self.clip_norm * len(values) ** -0.5] * len(values)
        wrapped, optimizer, *criterion, _ = PrivacyEngine().make_private(
            module=module,
            optimizer=OPTIMIZERS[self.optimizer](values, lr=self.rate),
            data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=COUNT),
            criterion=_criterion(self.loss),
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=norm,
            grad_sample_mode=self.mode,
            clipping=self.clipping,
            poisson_sampling=False,
        )
        claim: dict[str, Any] = {
            "noise_multiplier": self.noise_multiplier,
            "clip_norm": self.clip_norm,
            "divisor": float(COUNT),
        }
        loss = criterion[0] if criterion else _criterion(self.loss)
        return check_optimizer(wrapped, optimizer, loss, (inputs, labels), seed=self.seed, **claim)

    def _sample(self) -> tuple[Tensor, Tensor]:
        words = self.model in ("words", "recurrent")
        inputs = torch.randint(WORDS, (COUNT, 5)) if words else torch.randn(COUNT, FEATURES)
        if self.loss in ("squares", "binary"):
            return inputs, (torch.randn if self.loss == "squares" else lambda *shape: torch.rand(shape).round())(COUNT, CLASSES)
        return inputs, torch.randint(CLASSES, (COUNT,))


def _criterion(loss: str) -> nn.Module:
    table = {"cross entropy": nn.CrossEntropyLoss, "squares": nn.MSELoss, "binary": nn.BCEWithLogitsLoss}
    return nn.CrossEntropyLoss(label_smoothing=0.1) if loss == "smoothed" else table[loss]()


def make_model(kind: str, stream: np.random.Generator) -> nn.Module:  # noqa: PLR0911 (one arm a kind)
    """Return a small model of a kind, of drawn widths."""
    width, act = int(stream.integers(3, 9)), ACTIVATIONS[stream.integers(len(ACTIVATIONS))]
    bias = bool(stream.random() < 0.7)
    if kind == "words":
        return Words(width, "mean")
    if kind == "recurrent":
        return Words(width, str(stream.choice(["DPGRU", "DPLSTM", "DPRNN"])))
    if kind == "low rank":
        return LowRank(int(stream.integers(1, 4)))
    if kind == "pictures":
        size = int(stream.integers(2, 4))
        body = [nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 4, size, bias=bias), nn.GroupNorm(2, 4), act(), nn.Flatten()]
        return nn.Sequential(*body, nn.Linear(4 * (5 - size) ** 2, CLASSES))
    if kind == "lines":
        body = [
            nn.Unflatten(1, (2, 8)),
            nn.Conv1d(2, width, 3, padding=1, bias=bias),
            act(),
            nn.AdaptiveAvgPool1d(2),
            nn.Flatten(),
        ]
        return nn.Sequential(*body, nn.Linear(2 * width, CLASSES))
    first, head = nn.Linear(FEATURES, width, bias=bias), nn.Linear(width, CLASSES)
    if kind == "normalised":
        return nn.Sequential(first, nn.LayerNorm(width), act(), nn.Dropout(0.1), head)
    if kind == "shortcut":
        return nn.Sequential(first, Shortcut(nn.Sequential(nn.Linear(width, width), act())), act(), head)
    if kind == "shared":
        middle = nn.Linear(width, width)
        return nn.Sequential(first, act(), middle, act(), middle, act(), head)
    if kind == "frozen":
        first.requires_grad_(False)
    layers = [part for _ in range(int(stream.integers(0, 3))) for part in (nn.Linear(width, width, bias=bias), act())]
    return nn.Sequential(first, act(), *layers, head)


def draw(seed: int) -> Setup:
    """Return the set-up of a seed; Opacus has no ghost clipping or expanded weights for some layers: then it is by hooks."""
    stream = np.random.default_rng([seed, 1])
    model, mode = str(stream.choice(MODELS)), str(stream.choice(MODES, p=[0.4, 0.2, 0.25, 0.15]))
    if (mode != "hooks" and model in ("recurrent", "shared")) or (
        mode == "ew" and model in ("pictures", "words", "lines", "normalised")
    ):
        mode = "hooks"
    loss = str(stream.choice(LOSSES[:2] if mode == "ghost" else LOSSES))  # ghost clipping takes one loss a record
    clipping = "per_layer" if mode == "hooks" and stream.random() < 0.25 else "flat"
    return Setup(
        seed=seed,
        model=model,
        mode=mode,
        clipping=clipping,
        loss=loss,
        optimizer=str(stream.choice(list(OPTIMIZERS))),
        noise_multiplier=round(float(stream.uniform(0.3, 3.0)), 2),
        clip_norm=float(stream.choice([0.1, 0.5, 1.0, 4.0])),
        rate=float(stream.choice([0.01, 0.1, 0.5])),
    )


def _line(seed: int) -> str:
    setup = draw(seed)
    try:
        failures = setup.check().failures
    except Exception as error:  # noqa: BLE001  a set-up that crashes is what is looked for
        return f"{setup} CRASHED {type(error).__name__}: {str(error)[:200]}"
    return f"{setup} {[f'{finding.check}: {finding.message[:150]}' for finding in failures] or 'not accused'}"


def main(count: int, log: Path) -> None:
    """Check the set-ups that the log does not hold yet."""
    done = len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0
    for seed in range(done, count):
        with log.open("a", encoding="utf-8") as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stream.write(_line(seed) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "opacus_setups.log"))
