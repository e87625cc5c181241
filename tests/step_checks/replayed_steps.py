"""Torch steps, right and wrong, as users write them, for the replay of steps."""

# ruff: noqa: PLC3002  steps as users write them
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Noise = Callable[[Tensor, float, int, torch.Generator], Tensor]  # (zeros of the shape, deviation, records, generator)


def parameters() -> dict[str, Tensor]:
    """Return the weights of a linear model of three classes."""
    generator = torch.Generator().manual_seed(0)
    return {"w": torch.randn(6, 3, generator=generator) * 0.3, "b": torch.zeros(3)}


def sample() -> tuple[Tensor, Tensor]:
    """Return 24 records with labels."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(24, 6, generator=generator), torch.randint(0, 3, (24,), generator=generator)


def gradients(p: dict[str, Tensor], batch: Any) -> dict[str, Tensor]:
    """Return each record's gradients, one row a record."""
    x, y = batch
    error = torch.sigmoid(x @ p["w"] + p["b"]) - F.one_hot(y, 3)
    return {"w": x[:, :, None] * error[:, None], "b": error}


def factors(g: dict[str, Tensor], clip: float) -> Tensor:
    """Return the factor of each record that clips its whole gradient."""
    norm = torch.sqrt(sum((v.flatten(1) ** 2).sum(1) for v in g.values()))  # type: ignore[arg-type]
    return (clip / norm.clamp(min=1e-12)).clamp(max=1.0)


def clipped_sums(p: dict[str, Tensor], batch: Any, clip: float) -> dict[str, Tensor]:
    """Return the sum of clipped gradients by tensor."""
    g = gradients(p, batch)
    f = factors(g, clip)
    return {k: (v * f.reshape(-1, *(1,) * (v.ndim - 1))).sum(0) for k, v in g.items()}


def step_with(noise: Noise, sums: Callable[..., dict[str, Tensor]] = clipped_sums) -> Callable[..., dict[str, Tensor]]:
    """Return a step that adds `noise` to the sum of each tensor."""

    def step(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        total, n, s = sums(p, batch, clip_norm), len(batch[0]), noise_multiplier * clip_norm
        return {k: p[k] - (v + noise(torch.zeros_like(v), s, n, generator)) / divisor for k, v in total.items()}

    return step


def _normal(zeros: Tensor, s: float, n: int, generator: torch.Generator) -> Tensor:
    return torch.normal(0.0, s, zeros.shape, generator=generator)


def _in_place(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    for k, v in clipped_sums(p, batch, clip_norm).items():
        v.add_(torch.empty_like(v).normal_(generator=generator), alpha=noise_multiplier * clip_norm)
        p[k].sub_(v.div_(divisor))
    return p


def _into_out(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    result = {}
    for k, v in clipped_sums(p, batch, clip_norm).items():
        z, target = torch.empty_like(v), torch.empty_like(v)
        torch.normal(0.0, noise_multiplier * clip_norm, v.shape, generator=generator, out=z)
        torch.add(v, z, out=target)
        result[k] = p[k] - target / divisor
    return result


def _foreach(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    sums = list(clipped_sums(p, batch, clip_norm).values())
    noise = [torch.randn(v.shape, generator=generator) for v in sums]
    torch._foreach_mul_(noise, noise_multiplier * clip_norm)
    torch._foreach_add_(sums, noise)
    torch._foreach_div_(sums, divisor)
    values = [p[k] for k in p]
    torch._foreach_sub_(values, sums)
    return dict(zip(p, values, strict=True))


def _flat(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    sums = clipped_sums(p, batch, clip_norm)
    flat = torch.cat([v.flatten() for v in sums.values()])
    flat = flat + noise_multiplier * clip_norm * torch.randn(flat.shape, generator=generator)
    parts = torch.split(flat, [v.numel() for v in sums.values()])
    return {k: p[k] - part.view_as(p[k]) / divisor for k, part in zip(p, parts, strict=True)}


def _micro(share: Callable[[int], float]) -> Callable[..., Any]:
    def step(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        total = {k: torch.zeros_like(v) for k, v in p.items()}
        pieces = list(zip(*(torch.split(part, 4) for part in batch), strict=True))
        for piece in pieces:
            for k, v in clipped_sums(p, piece, clip_norm).items():
                total[k] += v + torch.randn(v.shape, generator=generator) * noise_multiplier * clip_norm * share(len(pieces))
        return {k: p[k] - v / divisor for k, v in total.items()}

    return step


def _vmap(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    def loss(q: Any, x: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(x @ q["w"] + q["b"], (torch.arange(3) == y).float(), reduction="sum")

    g = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(p, *batch)
    f = factors(g, clip_norm)
    out = {}
    for k, v in g.items():
        noisy = torch.einsum("i,i...->...", f, v) + torch.randn(p[k].shape, generator=generator) * clip_norm * noise_multiplier
        out[k] = p[k] - noisy / divisor
    return out


def _autograd(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    total = {k: torch.zeros_like(v) for k, v in p.items()}
    leaves = {k: v.clone().requires_grad_() for k, v in p.items()}
    for x, y in zip(*batch, strict=True):
        result = torch.autograd.grad(
            F.binary_cross_entropy_with_logits(x @ leaves["w"] + leaves["b"], (torch.arange(3) == y).float(), reduction="sum"),
            list(leaves.values()),
        )
        norm = torch.sqrt(sum((v**2).sum() for v in result))  # type: ignore[arg-type]
        for k, v in zip(total, result, strict=True):
            total[k] += v * min(1.0, clip_norm / (float(norm) + 1e-12))
    for k, v in total.items():
        total[k] = v / divisor + torch.normal(0.0, noise_multiplier * clip_norm / divisor, p[k].shape, generator=generator)
    return {k: p[k] - total[k] for k in p}


def _sgd(optimizer: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def step(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        model = {k: torch.nn.Parameter(v.clone()) for k, v in p.items()}
        inner = optimizer(model.values(), lr=1.0, **options)
        for k, v in clipped_sums(p, batch, clip_norm).items():
            model[k].grad = (v + _normal(v, noise_multiplier * clip_norm, 0, generator)) / divisor
        inner.step()
        return {k: v.detach() for k, v in model.items()}

    return step


def _mixed(zeros: Tensor, s: float, n: int, generator: torch.Generator) -> Tensor:
    """Return noise of an orthogonal matrix times standard normals: of the same law."""
    q = torch.eye(len(zeros)) - 2 / len(zeros)  # a reflection
    return s * (q @ torch.randn(zeros.shape, generator=generator))


def _compiled() -> Callable[..., Any]:
    add = torch.compile(lambda v, z: v + z)

    def step(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        s = noise_multiplier * clip_norm
        return {k: p[k] - add(v, _normal(v, s, 0, generator)) / divisor for k, v in clipped_sums(p, batch, clip_norm).items()}

    return step


RIGHT: dict[str, Callable[..., Any]] = {
    "torch.normal": step_with(_normal),
    "randn times the deviation": step_with(lambda z, s, n, g: torch.randn(z.shape, generator=g) * s),
    "randn_like from the default generator": step_with(lambda z, s, n, g: torch.randn_like(z) * s),
    "normal_": step_with(lambda z, s, n, g: z.normal_(0.0, s, generator=g)),
    "normal of tensors": step_with(lambda z, s, n, g: torch.normal(z, torch.full_like(z, s), generator=g)),
    "a distribution": step_with(lambda z, s, n, g: torch.distributions.Normal(0.0, s).sample(z.shape)),
    "sum of two draws": step_with(lambda z, s, n, g: s * (_normal(z, 1, n, g) + _normal(z, 1, n, g)) / math.sqrt(2)),
    "noise rolled": step_with(lambda z, s, n, g: torch.roll(_normal(z, s, n, g), 1, 0)),
    "noise turned": step_with(_mixed),
    "noise in double precision": step_with(
        lambda z, s, n, g: torch.randn(z.shape, generator=g, dtype=torch.float64).mul(s).float()
    ),
    "noise subtracted": step_with(lambda z, s, n, g: -_normal(z, s, n, g)),
    "in place": _in_place,
    "into out": _into_out,
    "foreach": _foreach,
    "flat vector": _flat,
    "shares of micro-batches": _micro(lambda k: 1 / math.sqrt(k)),
    "vmap": _vmap,
    "loop over records": _autograd,
    "SGD": _sgd(torch.optim.SGD),
    "SGD with momentum and decay": _sgd(torch.optim.SGD, momentum=0.9, weight_decay=0.1),
    "Adam": _sgd(torch.optim.Adam),
    "AdamW, foreach": _sgd(torch.optim.AdamW, foreach=True),
    "Adam, fused": _sgd(torch.optim.Adam, fused=True),
    "RMSprop": _sgd(torch.optim.RMSprop),
    "Adagrad": _sgd(torch.optim.Adagrad),
    "compiled": _compiled(),
}


def _missing(z: Tensor, s: float, n: int, g: torch.Generator) -> Tensor:
    noise = _normal(z, s, n, g)
    noise.view(-1)[:2] = 0
    return noise


def _missing_by_places(z: Tensor, s: float, n: int, g: torch.Generator) -> Tensor:
    noise = _normal(z, s, n, g)
    noise[[0, 2]] = 0
    return noise


def _per_tensor(p: Any, batch: Any, clip: float) -> Any:
    return {
        k: (v * (clip / v.flatten(1).norm(dim=1).clamp(min=1e-12)).clamp(max=1).reshape(-1, *(1,) * (v.ndim - 1))).sum(0)
        for k, v in gradients(p, batch).items()
    }


def _of_mean(p: Any, batch: Any, clip: float) -> Any:
    g = {k: v.mean(0, keepdim=True) for k, v in gradients(p, batch).items()}
    f = factors(g, clip)
    return {k: v[0] * f[0] * len(batch[0]) for k, v in g.items()}


def _past_sixteen(p: Any, batch: Any, clip: float) -> Any:
    g = gradients(p, batch)
    f = torch.cat([factors(g, clip)[:16], torch.ones(max(len(batch[0]) - 16, 0))])
    return {k: (v * f.reshape(-1, *(1,) * (v.ndim - 1))).sum(0) for k, v in g.items()}


def _one_for_all(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    z = torch.randn(6, 3, generator=generator) * noise_multiplier * clip_norm
    return {k: p[k] - (v + (z if k == "w" else z[0])) / divisor for k, v in clipped_sums(p, batch, clip_norm).items()}


def _realised(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    sums, n = clipped_sums(p, batch, clip_norm), max(len(batch[0]), 1)
    return {k: p[k] - (v + _normal(v, noise_multiplier * clip_norm, n, generator)) / n for k, v in sums.items()}


def _rate_by_loss(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    x, y = batch
    loss = F.cross_entropy(x @ p["w"] + p["b"], y)
    sums = clipped_sums(p, batch, clip_norm)
    return {
        k: p[k] - (v + _normal(v, noise_multiplier * clip_norm, 0, generator)) / divisor * (1 + loss) for k, v in sums.items()
    }


def _stop(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    x, y = batch
    if F.cross_entropy(x @ p["w"] + p["b"], y) < 0.05:
        return p
    sums = clipped_sums(p, batch, clip_norm)
    return {k: p[k] - (v + _normal(v, noise_multiplier * clip_norm, 0, generator)) / divisor for k, v in sums.items()}


def _raw_beside(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    sums, raw = clipped_sums(p, batch, clip_norm), gradients(p, batch)
    return {
        k: p[k] - (v + _normal(v, noise_multiplier * clip_norm, 0, generator)) / divisor - 1e-4 * raw[k].sum(0)
        for k, v in sums.items()
    }


def _raw_adam(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    raw = gradients(p, batch)
    sums = clipped_sums(p, batch, clip_norm)
    return {
        k: p[k] - (v + _normal(v, noise_multiplier * clip_norm, 0, generator)) / divisor / (raw[k].sum(0).abs() + 1)
        for k, v in sums.items()
    }


def _fixed(z: Tensor, s: float, n: int, g: torch.Generator) -> Tensor:
    return _normal(z, s, n, torch.Generator().manual_seed(5))


def _by_batch(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    generator = torch.Generator().manual_seed(int(batch[0].abs().sum() * 1000) % 2**31)
    return {
        k: p[k] - (v + _normal(v, noise_multiplier * clip_norm, 0, generator)) / divisor
        for k, v in clipped_sums(p, batch, clip_norm).items()
    }


WRONG: dict[str, Callable[..., Any]] = {
    "noise centred": step_with(lambda z, s, n, g: (lambda u: u - u.mean())(_normal(z, s * 1.1, n, g))),
    "a direction without noise": step_with(_missing),
    "places without noise": step_with(_missing_by_places),
    "noise less its neighbour": step_with(lambda z, s, n, g: (lambda u: (u - u.roll(1)) / math.sqrt(2))(_normal(z, s, n, g))),
    "half the noise": step_with(lambda z, s, n, g: _normal(z, s / 2, n, g)),
    "deviation as variance": step_with(lambda z, s, n, g: _normal(z, math.sqrt(s) / 2, n, g)),
    "noise at most 1": step_with(lambda z, s, n, g: _normal(z, min(s, 1.0), n, g)),
    "none above 12 records": step_with(lambda z, s, n, g: _normal(z, s, n, g) * (n <= 12)),
    "noise of each of k micro-batches over k": _micro(lambda k: 1 / k),
    "noise over the square root of records": step_with(lambda z, s, n, g: _normal(z, s / math.sqrt(max(n, 1)), n, g)),
    "one noise for two tensors": _one_for_all,
    "fixed seed": step_with(_fixed),
    "seed of the batch": _by_batch,
    "clip of each tensor alone": step_with(_normal, _per_tensor),
    "clip of the mean": step_with(_normal, _of_mean),
    "not clipped": step_with(_normal, lambda p, b, c: {k: v.sum(0) for k, v in gradients(p, b).items()}),
    "clipped at twice": step_with(_normal, lambda p, b, c: clipped_sums(p, b, 2 * c)),
    "not clipped past 16 records": step_with(_normal, _past_sixteen),
    "realised batch": _realised,
    "rate by the raw loss": _rate_by_loss,
    "no step below a loss": _stop,
    "raw gradients beside": _raw_beside,
    "second moment of raw gradients": _raw_adam,
}
PROBED: dict[str, Callable[..., Any]] = {  # noise of no law that can be followed: the replay says so
    "noise on a sphere": step_with(lambda z, s, n, g: (lambda u: u / u.norm() * s * math.sqrt(u.numel()))(_normal(z, 1, n, g))),
    "noise clamped": step_with(lambda z, s, n, g: _normal(z, s, n, g).clamp(-2 * s, 2 * s)),
    "noise in half precision": step_with(lambda z, s, n, g: _normal(z, s, n, g).half().float()),
    "uniform noise": step_with(lambda z, s, n, g: (torch.rand(z.shape, generator=g) - 0.5) * s * math.sqrt(12)),
}
