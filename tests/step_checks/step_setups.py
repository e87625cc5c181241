"""Random steps of DP-SGD that are right, and such with one defect: models, losses, clips, noise and optimisers of all kinds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from audit.step_checks.findings import StepReport
from audit.step_checks.run import check_optimizer, check_step

LENGTH, WORDS, CLASSES = 6, 11, 3


class Standardised(nn.Linear):
    """A layer without normalisation of activations: its weights are standardised instead."""

    def forward(self, x: Tensor) -> Tensor:
        weight = (self.weight - self.weight.mean(1, keepdim=True)) / (self.weight.std(1, keepdim=True) + 0.1)
        return functional.linear(x, weight, self.bias)


class Attention(nn.Module):
    """An embedding, one head of attention with a residual, and a mean over places."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.mix, self.head = nn.Embedding(WORDS, 4), nn.Linear(4, 12), nn.Linear(4, CLASSES)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: Tensor) -> Tensor:
        value = self.table(x)
        query, key, content = self.mix(self.norm(value)).chunk(3, dim=-1)
        return self.head((value + torch.softmax(query @ key.mT / 2, dim=-1) @ content).mean(-2))


class Gated(nn.Module):
    """A gated recurrent layer over the places of a record, and a head on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.candidate, self.head = nn.Linear(5, 8), nn.Linear(5, 4), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(*x.shape[:-1], 4, dtype=x.dtype)
        for place in range(LENGTH):
            now = x[..., place : place + 1]
            update, reset = torch.sigmoid(self.gates(torch.cat([now, state], -1))).chunk(2, -1)
            state = (1 - update) * state + update * torch.tanh(self.candidate(torch.cat([now, reset * state], -1)))
        return self.head(state)


class Tied(nn.Module):
    """One weight that is used twice, and a gain."""

    def __init__(self) -> None:
        super().__init__()
        self.middle, self.head, self.gain = (
            nn.Linear(LENGTH, LENGTH),
            nn.Linear(LENGTH, CLASSES),
            nn.Parameter(torch.tensor(1.3)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * self.head(torch.tanh(self.middle(torch.tanh(self.middle(x)))))


def one_hot(outputs: Tensor, labels: Tensor) -> Tensor:
    return (labels.unsqueeze(-1) == torch.arange(CLASSES)).to(outputs.dtype)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(LENGTH, CLASSES),
    "perceptron": lambda: nn.Sequential(nn.Linear(LENGTH, 5), nn.Tanh(), nn.Linear(5, CLASSES)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(-1, (1, LENGTH)), nn.Conv1d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(-2), nn.Linear(16, CLASSES)
    ),
    "recurrent": Gated,
    "attention": Attention,
    "words": lambda: nn.Sequential(nn.Embedding(WORDS, 3), nn.Flatten(-2), nn.Linear(3 * LENGTH, CLASSES)),
    "norm-free": lambda: nn.Sequential(Standardised(LENGTH, 5), nn.SiLU(), nn.Linear(5, CLASSES)),
    "tied": Tied,
}
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross entropy": functional.cross_entropy,
    "label smoothing": lambda o, y: functional.cross_entropy(o, y, label_smoothing=0.1),
    "squared": lambda o, y: (o - one_hot(o, y)).square().sum(),
    "huber": lambda o, y: functional.huber_loss(o, one_hot(o, y), reduction="sum"),
    "one against all": lambda o, y: functional.binary_cross_entropy_with_logits(o, one_hot(o, y), reduction="sum"),
}
CLIPS = ("flat", "per tensor", "automatic", "unequal budgets", "dropped above")
NOISES = ("randn", "normal", "in place", "flat", "two halves", "around the sum", "before the division")
SUMS = ("einsum", "record by record", "pieces", "foreach")
OPTIMISERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: torch.optim.Adam(p, foreach=True),
    "AdamW": lambda p: torch.optim.AdamW(p, fused=True),
    "RMSprop": torch.optim.RMSprop,
    "Adagrad": torch.optim.Adagrad,
    "NAdam": torch.optim.NAdam,
}
DEFECTS = (
    "no noise", "half the noise", "noise without C", "noise on weights only", "last tensor without noise",
    "noise divided twice", "batch clipped as one", "mean clipped", "norm of weights only", "norm without the last tensor",
    "each tensor to C", "mean of the batch, then noise", "divided by the realised batch", "pieces clipped as one",
    "batch normalised inputs", "one noise for all tensors", "one seed", "uniform noise", "Laplace noise", "noise cut off",
    "largest entry as norm", "factor without its cap", "loss weighted over the batch", "average before the noise",
    "first record unclipped", "no noise above 10 records", "noise by the share of the batch", "raw bias",
    "clip at the median norm", "noise in half precision", "noise of mean zero", "noise from a pool",
    "gradients less their mean", "noise of integers", "clipped twice as wide", "one class unclipped",
    "noise of the first row", "squared norm", "noise of mean one draw per tensor", "momentum of the sum",
)  # fmt: skip


@dataclass(kw_only=True, eq=False)
class Step:
    """A step on a model; gradients of records are computed once for each batch."""

    model: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    clip: str
    noise: str
    total: str
    defect: str = ""
    memory: Any = None
    known: dict[bytes, list[Tensor]] = field(default_factory=dict)

    def gradients(self, params: dict[str, Tensor], x: Tensor, y: Tensor) -> list[Tensor]:
        """Return each record's gradient, `(n, ...)` for each tensor; those that are not finite are 0."""
        if self.defect == "batch normalised inputs" and len(x) > 1 and x.is_floating_point():
            x = (x - x.mean(0)) / (x.std(0) + 0.1)
        key = x.numpy().tobytes() + y.numpy().tobytes()
        if key not in self.known:
            if not len(y):
                return [value.new_zeros((0, *value.shape)) for value in params.values()]

            def record_loss(values: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
                return self.loss(functional_call(self.model, values, (x,)), y)

            rows = vmap(grad(record_loss), in_dims=(None, 0, 0))({k: v.detach() for k, v in params.items()}, x, y)
            self.known[key] = [torch.where(torch.isfinite(v) & (v.abs() < 1e15), v, 0.0) for v in rows.values()]
        rows = self.known[key]
        if self.defect == "loss weighted over the batch" and len(y):
            weights = 1.0 + 9.0 * (y == 0)
            rows = [v * (weights * len(y) / weights.sum()).to(v.dtype).reshape(-1, *[1] * (v.ndim - 1)) for v in rows]
        return [v - v.mean(0) if self.defect == "gradients less their mean" and len(y) > 1 else v for v in rows]

    def factors(self, rows: list[Tensor], labels: Tensor, clip_norm: float) -> list[Tensor]:
        """Return by what each tensor's gradients are multiplied, `(n,)` for each tensor."""
        defect = self.defect
        norms = [v.reshape(len(v), math.prod(v.shape[1:])).norm(dim=1) for v in rows]
        if defect == "largest entry as norm":
            norms = [v.reshape(len(v), math.prod(v.shape[1:])).abs().amax(1) for v in rows]
        counted = [n for n, v in zip(norms, rows, strict=True) if v.ndim > 2] if defect == "norm of weights only" else norms
        joint = torch.stack(counted[:-1] if defect == "norm without the last tensor" else counted).norm(dim=0)
        if defect == "clip at the median norm" and len(joint):
            clip_norm = float(joint.median())
        if defect == "clipped twice as wide":
            clip_norm *= 2
        if defect == "each tensor to C":
            return [(clip_norm / n.clamp(min=1e-30)).clamp(max=1) for n in norms]
        if not defect and self.clip in ("per tensor", "unequal budgets"):
            shares = torch.arange(1.0, len(rows) + 1) if self.clip == "unequal budgets" else torch.ones(len(rows))
            budgets = clip_norm * shares / shares.norm()
            return [(float(c) / n.clamp(min=1e-30)).clamp(max=1) for c, n in zip(budgets, norms, strict=True)]
        if not defect and self.clip == "automatic":
            factor = clip_norm / (joint + 0.01)
        elif not defect and self.clip == "dropped above":
            factor = (joint <= clip_norm).to(joint.dtype)
        else:
            factor = (clip_norm / (joint.square() if defect == "squared norm" else joint).clamp(min=1e-30)).clamp(max=1)
        if defect == "factor without its cap":
            factor = clip_norm / joint.clamp(min=1e-3 * clip_norm) ** 0.5
        if defect == "first record unclipped":
            factor = torch.cat([torch.ones_like(factor[:1]), factor[1:]])
        if defect == "one class unclipped":
            factor = torch.where(labels == 0, 1.0, factor)
        return [factor] * len(rows)

    def add(self, rows: list[Tensor], factors: list[Tensor], clip_norm: float) -> list[Tensor]:
        """Return the sum of clipped gradients."""
        pairs = list(zip(rows, factors, strict=True))
        if self.defect in ("batch clipped as one", "mean clipped", "pieces clipped as one"):
            size = 3 if self.defect == "pieces clipped as one" else max(1, len(rows[0]))
            total = [torch.zeros_like(v[:1].sum(0)) for v in rows]
            for start in range(0, len(rows[0]), size):
                part = [v[start : start + size].sum(0) for v in rows]
                part = [v / len(rows[0]) for v in part] if self.defect == "mean clipped" else part
                norm = torch.stack([v.norm() for v in part]).norm()
                count = len(rows[0]) if self.defect == "mean clipped" else 1.0
                total = [
                    t + count * v * float(min(1.0, clip_norm / max(float(norm), 1e-30)))
                    for t, v in zip(total, part, strict=True)
                ]
            return total
        if self.defect == "raw bias":
            pairs = [(v, torch.ones_like(f) if v.ndim <= 2 else f) for v, f in pairs]
        if self.total in ("einsum", "foreach"):
            scaled = [v * f.reshape(-1, *[1] * (v.ndim - 1)) for v, f in pairs]
            return [v.sum(0) for v in scaled]
        size = 1 if self.total == "record by record" else 3
        total = [torch.zeros(v.shape[1:], dtype=v.dtype) for v in rows]
        for start in range(0, len(rows[0]), size):
            for t, (v, f) in zip(total, pairs, strict=True):
                t.add_(torch.tensordot(f[start : start + size], v[start : start + size], 1))
        return total

    def released(
        self, params: dict[str, Tensor], batch: Any, generator: Any, setting: tuple[float, float, float]
    ) -> list[Tensor]:
        """Return the noisy mean of clipped gradients; the setting is sigma, C and the divisor."""
        (x, y), (noise_multiplier, clip_norm, divisor) = batch, setting
        x = x.to(next(iter(params.values())).dtype) if x.is_floating_point() else x
        rows = self.gradients(params, x, y)
        total = self.add(rows, self.factors(rows, y, clip_norm), clip_norm)
        if self.defect in ("average before the noise", "momentum of the sum"):
            keep = 0.9 if self.memory is not None else 0.0
            self.memory = [keep * m + v for m, v in zip(self.memory or total, total, strict=True)]
            total = [0.1 * m for m in self.memory] if self.defect == "average before the noise" else self.memory
        deviation, count = noise_multiplier * clip_norm, len(y)
        if not self.defect:
            return self.noisy(total, deviation, divisor, generator)
        if self.defect == "mean of the batch, then noise":
            total = [v / max(1, count) * divisor for v in total]
        scale = max(1, count) if self.defect == "divided by the realised batch" else divisor
        return [(v + n) / scale for v, n in zip(total, self.wrong(total, deviation, count, generator), strict=True)]

    def noisy(self, total: list[Tensor], deviation: float, divisor: float, generator: Any) -> list[Tensor]:
        """Return the sum with noise, over the divisor, in one of several right ways."""

        def draw(v: Tensor) -> Tensor:
            return torch.randn(v.shape, generator=generator, dtype=v.dtype)

        kind = "randn" if self.noise == "around the sum" and not deviation else self.noise
        if kind == "flat":
            flat = torch.cat([v.flatten() for v in total])
            parts = (flat + deviation * draw(flat)).div(divisor).split([v.numel() for v in total])
            return [part.reshape(v.shape) for part, v in zip(parts, total, strict=True)]
        if kind == "randn" and self.total == "foreach":
            noisy = torch._foreach_add(total, torch._foreach_mul([draw(v) for v in total], deviation))
            return list(torch._foreach_div(noisy, divisor))
        ways: dict[str, Callable[[Tensor], Tensor]] = {
            "randn": lambda v: (v + deviation * draw(v)) / divisor,
            "normal": lambda v: (v + torch.normal(0.0, deviation, v.shape, generator=generator, dtype=v.dtype)) / divisor,
            "in place": lambda v: v.clone().add_(torch.empty_like(v).normal_(generator=generator), alpha=deviation) / divisor,
            "two halves": lambda v: (v + deviation * 0.5**0.5 * draw(v) + deviation * 0.5**0.5 * draw(v)) / divisor,
            "around the sum": lambda v: torch.normal(v, torch.full_like(v, deviation), generator=generator) / divisor,
            "before the division": lambda v: v / divisor + deviation / divisor * draw(v),
        }
        return [ways[kind](v) for v in total]

    def wrong(self, total: list[Tensor], deviation: float, count: int, generator: Any) -> list[Tensor]:
        """Return the noise of a step with a defect, which may be right if the defect is elsewhere."""
        defect = self.defect
        if defect == "one seed":
            generator = torch.Generator().manual_seed(0)
        z = [torch.randn(v.shape, generator=generator, dtype=v.dtype) for v in total]
        factor = {
            "no noise": 0.0, "half the noise": 0.5, "no noise above 10 records": float(count <= 10),
            "noise by the share of the batch": count / 16, "noise divided twice": 1 / 16, "noise without C": 0.5,
        }.get(defect, 1.0)  # fmt: skip
        if defect == "last tensor without noise":
            z[-1] = 0 * z[-1]
        elif defect == "one noise for all tensors":
            longest = max(z, key=torch.numel).flatten()
            z = [longest[: n.numel()].reshape(n.shape) for n in z]

        def draw_uniform(n: Tensor) -> Tensor:
            return torch.rand(n.shape, generator=generator, dtype=n.dtype).clamp(1e-6, 1 - 1e-6) - 0.5

        def draw_laplace(n: Tensor) -> Tensor:
            u = draw_uniform(n)
            return -u.sign() * torch.log1p(-2 * u.abs()) / 2**0.5

        pool = torch.from_numpy(np.random.default_rng(0).normal(size=1000))
        changes: dict[str, Callable[[Tensor], Tensor]] = {
            "noise on weights only": lambda n: n * (n.ndim > 1),
            "uniform noise": lambda n: draw_uniform(n) * 12**0.5,
            "Laplace noise": draw_laplace,
            "noise cut off": lambda n: n.clamp(-2.0, 2.0),
            "noise in half precision": lambda n: n.half().to(n.dtype),
            "noise of mean zero": lambda n: n - n.mean(),
            "noise from a pool": lambda n: pool[torch.randint(1000, n.shape, generator=generator)].to(n.dtype),
            "noise of integers": torch.round,
            "noise of the first row": lambda n: n[:1].expand(n.shape) if n.ndim else n,
            "noise of mean one draw per tensor": lambda n: n.flatten()[0].expand(n.shape),
        }
        z = [changes[defect](n) for n in z] if defect in changes else z
        return [deviation * factor * n for n in z]


class Keeping(nn.Module):
    """A model that keeps its inputs for the private optimiser."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        self._seen = x
        return self.body(x.to(next(self.parameters()).dtype) if x.is_floating_point() else x)


class Private:
    """A private optimiser around one of torch, with attributes of the usual names."""

    def __init__(self, step: Step, model: Keeping, inner: Any, claim: dict[str, float]) -> None:
        self._step, self._model, self._inner, self.generator = step, model, inner, None
        self.noise_multiplier, self.max_grad_norm = claim["noise_multiplier"], claim["clip_norm"]
        self.expected_batch_size = claim["divisor"]

    def zero_grad(self) -> None:
        self._inner.zero_grad()

    def step(self) -> None:
        values = dict(self._model.body.named_parameters())
        with torch.no_grad():
            setting = self.noise_multiplier, self.max_grad_norm, self.expected_batch_size
            means = self._step.released(values, (self._model._seen, self._labels), self.generator, setting)
            for value, mean in zip(values.values(), means, strict=True):
                value.grad = mean.clone()
        self._inner.step()


@dataclass(frozen=True, kw_only=True, eq=False)
class Setup:
    """One step with its sample and claim."""

    step: Step
    sample: tuple[Any, Any]
    claim: dict[str, float]
    optimiser: str
    text: str

    def check(self, seed: int) -> StepReport:
        """Return what the step checks find."""
        model = self.step.model
        if not self.optimiser:
            params = {name: value.detach() for name, value in model.named_parameters()}

            def function(
                params: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float
            ) -> Any:
                means = self.step.released(params, batch, generator, (noise_multiplier, clip_norm, divisor))
                return {name: value - mean for (name, value), mean in zip(params.items(), means, strict=True)}

            return check_step(function, params, self.sample, seed=seed, **self.claim)
        keeping = Keeping(model)
        optimizer = Private(self.step, keeping, OPTIMISERS[self.optimiser](list(model.parameters())), self.claim)

        def criterion(outputs: Tensor, labels: Tensor) -> Tensor:
            optimizer._labels = labels
            return outputs.sum()

        return check_optimizer(keeping, optimizer, criterion, self.sample, seed=seed, **self.claim)


def draw_setup(seed: int, defect: str = "") -> Setup:
    """Return the set-up of a seed, with a defect or none."""
    stream = np.random.default_rng(seed)
    torch.manual_seed(seed)
    choose = [str(stream.choice(list(kinds))) for kinds in (MODELS, LOSSES, CLIPS, NOISES, SUMS, ["", *OPTIMISERS])]
    name, loss, clip, noise, total, optimiser = choose
    wide = bool(stream.random() < 0.25)
    model = MODELS[name]().to(torch.float64 if wide else torch.float32)
    count = int(stream.integers(8, 20))
    words = name in ("attention", "words")
    records = stream.integers(WORDS, size=(count, LENGTH)) if words else stream.normal(size=(count, LENGTH)).astype(np.float32)
    claim = {
        "noise_multiplier": float(stream.uniform(0.4, 3)),
        "clip_norm": float(stream.choice([0.2, 0.5, 2.0])),
        "divisor": float(stream.choice([4, 16, 50])),
    }
    if defect:
        claim = {"noise_multiplier": claim["noise_multiplier"], "clip_norm": 0.5, "divisor": 16.0}
    step = Step(model=model, loss=LOSSES[loss], clip=clip, noise=noise, total=total, defect=defect)
    text = f"{seed}: {defect or 'right'}, {', '.join(filter(None, choose))}{', double' if wide else ''}, {claim}"
    labels = stream.permutation(np.resize(np.arange(CLASSES), count))
    return Setup(step=step, sample=(records, labels), claim=claim, optimiser=optimiser, text=text)
