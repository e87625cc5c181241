"""Random set-ups of correct DP-SGD: networks, settings and implementations that step checks may never accuse.

python -m tests.step_checks.correct_setups 1000 [LOG]

A log keeps one line for each set-up that was checked; with the same log, a run continues if the last one ended.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from audit.step_checks.findings import StepReport
from audit.step_checks.run import check_step

Tensors = dict[str, Tensor]
Arrays = dict[str, Any]
Rows = NDArray[np.float32]
TORCH_SHARE = 0.25  # of set-ups whose parameters and noise are torch's; of the others they are numpy's, which is quicker
CLEAN = "not accused"
IMPLEMENTATIONS = ("vectorised", "loop", "pieces", "normalised", "flat noise")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One correct step with its parameters, sample and claim."""

    step: Callable[..., Arrays]
    params: Arrays
    sample: tuple[Any, Any]
    claim: dict[str, float]
    text: str

    def check(self, seed: int) -> StepReport:
        """Return what the step checks find."""
        return check_step(self.step, self.params, self.sample, seed=seed, **self.claim)


def draw(seed: int) -> Setup:
    """Return the set-up of a seed: 3 to 12 inputs, up to two hidden layers, 2 to 5 classes, a gain or a shared weight."""
    stream, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    inputs, classes, hidden = int(stream.integers(3, 13)), int(stream.integers(2, 6)), int(stream.integers(0, 3))
    widths = [inputs, *stream.integers(3, 9, size=hidden).tolist(), classes]
    params = {
        f"{kind}{i}": torch.randn(shape, generator=generator) * stream.uniform(0.1, 1.0)
        for i in range(len(widths) - 1)
        for kind, shape in (("weight", (widths[i + 1], widths[i])), ("bias", (widths[i + 1],)))
    }
    if stream.random() < 0.3:
        params["gain"] = torch.tensor(1.3)
    shared = bool(stream.random() < 0.3)
    if shared:
        params["square"] = torch.randn((inputs, inputs), generator=generator) * 0.2
    kind = str(stream.choice(IMPLEMENTATIONS))
    claim = {
        "noise_multiplier": float(stream.uniform(0.3, 4)),
        "clip_norm": float(stream.choice([0.1, 0.5, 1.0, 3.0])),
        "divisor": float(stream.choice([2, 6.4, 16, 100])),
    }
    count = int(stream.integers(8, 24))
    sample = (stream.normal(size=(count, inputs)).astype(np.float32), stream.integers(classes, size=count))
    library = "torch" if stream.random() < TORCH_SHARE else "numpy"
    arrays = params if library == "torch" else {name: value.numpy() for name, value in params.items()}
    text = f"seed {seed}: {kind}, {library}, widths {widths}, {claim}"
    return Setup(step=Implementation(kind), params=arrays, sample=sample, claim=claim, text=text)


def network(params: Tensors, records: Tensor) -> Tensor:
    """Return the logits `(n, classes)` of records, each by its own copy of the parameters; `square` is used twice."""
    value = records
    if "square" in params:
        for _ in range(2):
            value = torch.tanh(torch.einsum("noi,ni->no", params["square"], value))
    layers = sum(name.startswith("weight") for name in params)
    for i in range(layers):
        value = torch.einsum("noi,ni->no", params[f"weight{i}"], value) + params[f"bias{i}"]
        value = torch.tanh(value) if i < layers - 1 else value
    return value * params["gain"][:, None] if "gain" in params else value


def record_gradients(params: Tensors, records: Tensor, labels: Tensor) -> Tensors:
    """Return each record's gradient of its cross entropy, name to `(n, coordinates)`."""
    count = len(labels)
    copies = {name: value.expand(count, *value.shape).clone().requires_grad_() for name, value in params.items()}
    loss = nn.functional.cross_entropy(network(copies, records), labels, reduction="sum")
    gradients = torch.autograd.grad(loss, list(copies.values()))
    return {name: value.reshape(count, -1) for name, value in zip(copies, gradients, strict=True)}


@dataclass(frozen=True)
class Implementation:
    """A correct step of torch or numpy, written in one of five ways, at parameters that never change.

    Attributes:
        kind: which way.
        gradients: of the records of a piece, by its bytes. A check calls a step some 1,700 times on 160 different batches, so
            each is computed once, to the same bits.
        sums: of clipped gradients, by the bytes of a batch and the clip norm.
    """

    kind: str
    gradients: dict[tuple[bytes, bytes], Rows] = field(default_factory=dict)
    sums: dict[tuple[bytes, bytes, float], Tensors] = field(default_factory=dict)

    def __call__(
        self, params: Arrays, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float
    ) -> Arrays:
        """Return the parameters after one step of learning rate 1."""
        deviation, count = noise_multiplier * clip_norm, sum(math.prod(value.shape) for value in params.values())
        if isinstance(generator, torch.Generator):
            total = self.total({name: torch.as_tensor(value) for name, value in params.items()}, *batch, clip_norm)
            if self.kind == "flat noise":
                noise = _split(torch.randn(count, generator=generator), params)
            else:
                noise = {name: torch.randn(value.shape, generator=generator) for name, value in params.items()}
        else:
            tensors = {name: torch.from_numpy(value) for name, value in params.items()}
            inputs, labels = batch
            total = {
                name: value.numpy()
                for name, value in self.total(tensors, torch.from_numpy(inputs), torch.from_numpy(labels), clip_norm).items()
            }
            noise = _split(generator.standard_normal(count, dtype=np.float32), params)
        return {name: value - (total[name] + deviation * noise[name]) / divisor for name, value in params.items()}

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum of clipped gradients."""
        key = (*_content(inputs, labels), clip_norm)
        if key not in self.sums:
            self.sums[key] = self.sum_of_pieces(params, inputs, labels, clip_norm)
        return self.sums[key]

    def sum_of_pieces(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum of clipped gradients, piece after piece, over all parameters in one row."""
        total = np.zeros(sum(value.numel() for value in params.values()), dtype=np.float32)
        size = {"loop": 1, "pieces": 3}.get(self.kind, max(1, len(labels)))
        for start in range(0, len(labels), size):
            records = inputs[start : start + size], labels[start : start + size]
            content = _content(*records)
            if content not in self.gradients:
                gradients = record_gradients(params, *records)
                self.gradients[content] = torch.cat(list(gradients.values()), dim=1).numpy()
            total += self.clipped(self.gradients[content], clip_norm)
        return _split(torch.from_numpy(total), params)

    def clipped(self, gradients: Rows, clip_norm: float) -> Rows:
        """Return the sum over one piece, vectorised over its records; records of infinite gradient count as 0."""
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(np.square(gradients).sum(1))
        if self.kind == "normalised":  # AUTO-S (Bu et al. 2023): every gradient is scaled to just below C
            factors = clip_norm / (norms + 0.01)
        else:
            factors = np.minimum(clip_norm / np.maximum(norms, 1e-30), 1.0)
        finite = np.isfinite(norms)
        return np.asarray(np.where(finite, factors, 0.0).astype(np.float32) @ np.where(finite[:, None], gradients, 0.0))


def _split(row: Any, params: Arrays) -> Arrays:
    """Return a row of all coordinates as arrays of the shapes of the parameters."""
    parts, start = {}, 0
    for name, value in params.items():
        end = start + math.prod(value.shape)
        parts[name] = row[start:end].reshape(value.shape)
        start = end
    return parts


def _content(inputs: Tensor, labels: Tensor) -> tuple[bytes, bytes]:
    return inputs.numpy().tobytes(), labels.numpy().tobytes()


def main(count: int, log: Path | None = None) -> None:
    """Check that many set-ups, but for those in the log; print each that is accused, and the number."""
    lines = log.read_text(encoding="utf-8").splitlines() if log is not None and log.exists() else []
    for seed in range(len(lines), count):
        setup = draw(seed)
        accusations = [f"{finding.check}: {finding.message}" for finding in setup.check(seed).failures]
        lines.append(f"{setup.text}: {'; '.join(accusations) or CLEAN}")
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                file.write(lines[-1] + "\n")
        if accusations:
            print(lines[-1], flush=True)
    accused = sum(not line.endswith(CLEAN) for line in lines[:count])
    print(f"{accused} of {count} correct set-ups accused")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
