"""Random set-ups of correct DP-SGD: networks, settings and implementations that step checks may never accuse.

python -m tests.step_checks.correct_setups 1000
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from audit.step_checks.findings import StepReport
from audit.step_checks.run import check_step

Tensors = dict[str, Tensor]
IMPLEMENTATIONS = ("vectorised", "loop", "pieces", "normalised", "flat noise")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One correct step with its parameters, sample and claim."""

    step: Callable[..., Tensors]
    params: Tensors
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
    text = f"seed {seed}: {kind}, widths {widths}, {claim}"
    return Setup(step=Implementation(kind), params=params, sample=sample, claim=claim, text=text)


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
    """A correct step, written in one of five ways."""

    kind: str

    def __call__(
        self, params: Tensors, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float
    ) -> Tensors:
        """Return the parameters after one step of learning rate 1."""
        total = self.total(params, *batch, clip_norm)
        deviation = noise_multiplier * clip_norm
        if self.kind == "flat noise":
            flat = torch.randn(sum(value.numel() for value in params.values()), generator=generator)
            parts = flat.split([value.numel() for value in params.values()])
            noise = {name: part.reshape(params[name].shape) for name, part in zip(params, parts, strict=True)}
        else:
            noise = {name: torch.randn(value.shape, generator=generator) for name, value in params.items()}
        return {name: value - (total[name] + deviation * noise[name]) / divisor for name, value in params.items()}

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum of clipped gradients."""
        zero = {name: torch.zeros_like(value) for name, value in params.items()}
        if not len(labels):
            return zero
        if self.kind == "loop":
            size = 1
        elif self.kind == "pieces":
            size = 3
        else:
            size = len(labels)
        for start in range(0, len(labels), size):
            piece = self.clipped(params, inputs[start : start + size], labels[start : start + size], clip_norm)
            zero = {name: value + piece[name] for name, value in zero.items()}
        return zero

    def clipped(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum over one piece, vectorised over its records; records of infinite gradient count as 0."""
        gradients = record_gradients(params, inputs, labels)
        norms = torch.cat(list(gradients.values()), dim=1).square().sum(1).sqrt()
        if self.kind == "normalised":  # AUTO-S (Bu et al. 2023): every gradient is scaled to just below C
            factors = clip_norm / (norms + 0.01)
        else:
            factors = (clip_norm / norms.clamp(min=1e-30)).clamp(max=1.0)
        finite = torch.isfinite(norms)
        result = {}
        for name, value in gradients.items():
            rows = torch.where(finite[:, None], value, 0.0) * torch.where(finite, factors, 0.0)[:, None]
            result[name] = rows.sum(0).reshape(params[name].shape)
        return result


def main(count: int, start: int = 0) -> None:
    """Check that many set-ups; print each that is accused, and the number."""
    accused = 0
    for seed in range(start, start + count):
        setup = draw(seed)
        failures = setup.check(seed).failures
        accused += bool(failures)
        for finding in failures:
            print(f"{setup.text}: {finding.check}: {finding.message}", flush=True)
        if (seed + 1) % 50 == 0:
            print(f"{seed + 1 - start} set-ups, {accused} accused", flush=True)
    print(f"{accused} of {count} correct set-ups accused")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
