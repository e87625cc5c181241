"""Torch steps of unusual forms, right and wrong, for the replay of steps: public randomness, seeds, small and empty sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.step_checks.replayed_steps import clipped_sums, gradients, step_with

BASIS = torch.linalg.qr(torch.randn(21, 7, generator=torch.Generator().manual_seed(2)))[0]


def normal(zeros: Tensor, s: float, n: int, generator: torch.Generator) -> Tensor:
    """Return noise of deviation s."""
    return torch.normal(0.0, s, zeros.shape, generator=generator)


def flat_step(release: Callable[[Tensor, float, float, torch.Generator], Tensor]) -> Callable[..., Any]:
    """Return a step that releases a vector of a record's gradients, `(records, 21)`, at deviation s and clip norm C."""

    def step(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        rows = torch.cat([v.flatten(1) for v in gradients(p, batch).values()], 1)
        noisy = release(rows, noise_multiplier * clip_norm, clip_norm, generator) / divisor
        parts = torch.split(noisy, [v.numel() for v in p.values()])
        return {k: v - part.view_as(v) for (k, v), part in zip(p.items(), parts, strict=True)}

    return step


def clip(rows: Tensor, c: float) -> Tensor:
    """Return rows of norm at most c."""
    return rows * (c / rows.norm(dim=1, keepdim=True).clamp(min=1e-30)).clamp(max=1)


def seeded(seed: Callable[[torch.Generator, Any], torch.Generator]) -> Callable[..., Any]:
    """Return a step that draws its noise from another generator than it is given."""

    def step(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        stream, s = seed(generator, batch), noise_multiplier * clip_norm
        return {k: p[k] - (v + normal(v, s, 0, stream)) / divisor for k, v in clipped_sums(p, batch, clip_norm).items()}

    return step


def _seeded_by(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed % 2**63)


def _fresh(generator: torch.Generator, batch: Any) -> torch.Generator:
    stream = torch.Generator()
    stream.seed()
    return stream


def _restored(generator: torch.Generator, batch: Any) -> torch.Generator:
    stream = torch.Generator()
    stream.set_state(generator.get_state())
    return stream


def _projected(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    public = torch.randn(21, 9, generator=torch.Generator().manual_seed(0)) / 3
    low = clip(rows @ public, c).sum(0)
    return public @ (low + s * torch.randn(9, generator=generator))


def _haar(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    turn = torch.linalg.qr(torch.randn(21, 21, generator=torch.Generator().manual_seed(5)))[0]
    return turn.T @ (turn @ clip(rows, c).sum(0) + s * torch.randn(21, generator=generator))


def _halves(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    first, second = clip(rows, c)[::2].sum(0), clip(rows, c)[1::2].sum(0)
    return (first + s * torch.randn(21, generator=generator)) + (second + 0.0 * torch.randn(21, generator=generator))


def _bisected(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    noisy = clip(rows, c).sum(0) + s * torch.randn(21, generator=generator)
    return torch.where(noisy.abs() > 0.1 * s, noisy, torch.zeros_like(noisy))


def _sorted(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    clipped = clip(rows, c)
    return clipped[clipped.norm(dim=1).argsort()].sum(0) + s * torch.randn(21, generator=generator)


def _two_gradients(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    """Take the second gradient where the first, with noise, leads to; each has half of the budget."""
    s, moved = 2**0.5 * noise_multiplier * clip_norm, p
    for rate in (0.1, 1.0):
        noisy = {k: (v + normal(v, s, 0, generator)) / divisor for k, v in clipped_sums(moved, batch, clip_norm).items()}
        moved = {k: p[k] - rate * v for k, v in noisy.items()}
    return moved


RIGHT: dict[str, Callable[..., Any]] = {
    "two gradients, each with noise": _two_gradients,
    "noise mapped from a public subspace": flat_step(
        lambda g, s, c, r: BASIS @ clip(g @ BASIS, c).sum(0) + s * (BASIS @ torch.randn(7, generator=r))
    ),
    "noise drawn in a public subspace": flat_step(
        lambda g, s, c, r: BASIS @ (clip(g @ BASIS, c).sum(0) + s * torch.randn(7, generator=r))
    ),
    "public projection of a fixed seed": flat_step(_projected),
    "turned by a public rotation and back": flat_step(_haar),
    "generator of a seed derived": seeded(lambda g, batch: _seeded_by(g.initial_seed() + 17)),
    "generator with the given state": seeded(_restored),
    "generator seeded by the system": seeded(_fresh),
    "halves added": flat_step(_halves),
    "noise in two shares": flat_step(
        lambda g, s, c, r: (clip(g, c).sum(0) + 0.6 * s * torch.randn(21, generator=r)) + 0.8 * s * torch.randn(21, generator=r)
    ),
    "small noisy coordinates are dropped": flat_step(_bisected),
    "records in order of their norms": flat_step(_sorted),
    "clip by a smooth factor": flat_step(
        lambda g, s, c, r: (
            (g * (c * torch.tanh(g.norm(dim=1, keepdim=True) / c) / g.norm(dim=1, keepdim=True).clamp(min=1e-30))).sum(0)
            + s * torch.randn(21, generator=r)
        )
    ),
}


def _less_the_first(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    moved = clip(rows - 0.5 * rows[:1], c).sum(0) if len(rows) else rows.sum(0)
    return moved + s * torch.randn(21, generator=generator)


def _turned(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    total, z = clip(rows, c).sum(0), s * torch.randn(21, generator=generator)
    return total + z * torch.sign((total * z).sum())


def _by_hash(generator: torch.Generator, batch: Any) -> torch.Generator:
    return _seeded_by(hash(float(batch[0].double().sum())) ^ generator.initial_seed())


def _moving(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    total = clip(rows, c).sum(0)
    return total + s * torch.randn(21, generator=generator) * (total.norm() > 1e-2)


def _masked(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    total = clip(rows, c).sum(0)
    return total + s * torch.randn(21, generator=generator) * (total.abs() > 1e-6)


def _late(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    return clip(rows.sum(0, keepdim=True), c)[0] * max(len(rows), 1) ** 0.5 + s * torch.randn(21, generator=generator)


def _median(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    bound = min(float(rows.norm(dim=1).median()), c) if len(rows) else c
    return clip(rows, bound).sum(0) + s * bound / c * torch.randn(21, generator=generator)


def _paired(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    clipped = clip(rows, c)
    return (clipped + 0.5 * clipped.roll(1, 0)).sum(0) + s * torch.randn(21, generator=generator)


def _private_subspace(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    total = clip(rows, c).sum(0)
    unit = total / total.norm().clamp(min=1e-30)
    return total + s * torch.randn((), generator=generator) * unit


def _kept_largest(rows: Tensor, s: float, c: float, generator: torch.Generator) -> Tensor:
    total = clip(rows, c).sum(0)
    mask = total.abs() >= total.abs().topk(5).values[-1]
    return (total + s * torch.randn(21, generator=generator)) * mask


WRONG: dict[str, Callable[..., Any]] = {
    "less the first record's gradient": flat_step(_less_the_first),
    "noise turned towards the sum": flat_step(_turned),
    "seed of the records and the generator": seeded(
        lambda g, batch: _seeded_by(int(batch[0].abs().sum() * 1000) + g.initial_seed())
    ),
    "seed by a hash of the records": seeded(_by_hash),
    "a constant seed for one tensor": step_with(lambda z, s, n, g: normal(z, s, n, g if z.ndim > 1 else _seeded_by(3))),
    "a generator that was never seeded": seeded(lambda g, batch: torch.Generator()),
    "no noise for a small sum": flat_step(_moving),
    "noise only at coordinates that moved": flat_step(_masked),
    "clip after the sum": flat_step(_late),
    "clip norm by the median of norms": flat_step(_median),
    "each record beside its neighbour": flat_step(_paired),
    "noise along the sum alone": flat_step(_private_subspace),
    "the largest raw coordinates are kept": flat_step(_kept_largest),
}
NOT_FOLLOWED = ("noise turned towards the sum",)  # what the noise goes through has no law: the probes sample it
