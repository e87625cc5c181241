"""Poisson batches drawn on the device: the coin of a record in a step is a function of the model's key, step and record."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from audit.core.seeds import Seed
from audit.engine.counter_streams import CounterStreams
from audit.engine.sampling import Indices, Law, Mask, align_up

_DRAW_COINS = 1 << 24  # tossed at once, in some 60 times as many bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceBlock:
    """Batches of N models for `steps` steps, as `Block` has them, on the device that drew them.

    Attributes:
        index: `(steps, N, width)` record numbers, ascending, padded with 0; as wide as any batch, or wider.
        lengths: `(steps, N)` records of each batch that are in `index`.
        extra: `(steps, N, m)` which of the gradient canaries take part, or None where there are none.
        counts: `lengths` on the host.
        totals: the same with gradient canaries.
    """

    index: Tensor
    lengths: Tensor
    extra: Tensor | None
    counts: Indices
    totals: Indices

    def sizes(self, within: int) -> Indices:
        """`(N,)` records and gradient canaries of each batch of a step of the block."""
        totals: Indices = self.totals[within]
        return totals


class CounterSampler:
    """Batches of N models together, drawn on a device.

    Each record has a coin of its own in every step, so the law is that of Poisson sampling, whatever a batch's length: rows are
    reserved for eight standard deviations above the mean, and a block with a longer batch is laid out once more. The host waits
    once a block of steps, for the lengths of its batches.

    Args:
        law: over the shared records followed by all canaries.
        seeds: one per model, the stream of its batches.
        included: `(N, m)` coins. A canary with coin 0 is drawn like any other record and left out.
        as_gradients: canaries are reported in `DeviceBlock.extra` instead of as records.
        device: where batches are wanted.
    """

    def __init__(self, law: Law, seeds: tuple[Seed, ...], included: Mask, *, as_gradients: bool, device: torch.device) -> None:
        self._law = law
        self._streams = CounterStreams(seeds, device)
        self._included = torch.from_numpy(included).to(device)
        self._as_gradients = as_gradients
        self._device = device
        self._first = 0

    def block(self) -> DeviceBlock:
        """The next `law.block_steps` batches of every model."""
        law = self._law
        width = align_up(min(law.population, math.ceil(law.mean + 8.0 * math.sqrt(max(law.mean, 1.0)))))
        index, lengths, extra = self._batches(width)
        totals = torch.stack([lengths, lengths if extra is None else lengths + extra.sum(2)]).cpu().numpy()
        if totals[0].max(initial=0) > width:
            index, lengths, extra = self._batches(align_up(int(totals[0].max())))
        self._first += law.block_steps
        return DeviceBlock(index=index, lengths=lengths, extra=extra, counts=totals[0], totals=totals[1])

    def _batches(self, width: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return records, lengths and gradient canaries of the block's batches, in rows of `width`."""
        law = self._law
        steps = max(1, _DRAW_COINS // max(1, self._streams.models * law.population))
        end = self._first + law.block_steps
        parts = [self._part(start, min(start + steps, end), width) for start in range(self._first, end, steps)]
        index, lengths = (torch.cat(column) for column in zip(*((part.index, part.lengths) for part in parts), strict=True))
        extra = torch.cat([part.extra for part in parts]) if self._as_gradients else None
        return index[..., :width], lengths, extra

    def _part(self, start: int, stop: int, width: int) -> _Part:
        """Batches of some steps, whose coins are tossed in as many pieces as memory asks for."""
        steps = torch.arange(start, stop, device=self._device)
        models, canaries = self._included.shape
        part = _Part(len(steps), models, width, self._device)
        ordinary = self._law.population - canaries
        piece = max(1, _DRAW_COINS // max(1, len(steps) * models))
        for first in range(0, ordinary, piece):
            count = min(piece, ordinary - first)
            part.add(first, self._streams.heads(steps, first, count, self._law.rate))
        part.extra = self._streams.heads(steps, ordinary, canaries, self._law.rate) & self._included
        if not self._as_gradients:
            part.add(ordinary, part.extra)
        return part


class _Part:
    """Batches of some steps while they grow; `index` has a column more than batches, for what is no member."""

    def __init__(self, steps: int, models: int, width: int, device: torch.device) -> None:
        self.index = torch.zeros(steps, models, width + 1, dtype=torch.int64, device=device)
        self.lengths = torch.zeros(steps, models, dtype=torch.int64, device=device)
        self.extra = torch.zeros(steps, models, 0, dtype=torch.bool, device=device)

    def add(self, first: int, members: Tensor) -> None:
        """Append the records from number `first` on that `members` `(steps, N, count)` says take part."""
        width, count = self.index.shape[2] - 1, members.shape[2]
        ranks = members.cumsum(2).add_(self.lengths.unsqueeze(2))
        # what is no member, or beyond the width, goes to the last column
        columns = torch.where(members & (ranks <= width), ranks - 1, width)
        numbers = torch.arange(first, first + count, device=self.index.device)
        self.index.scatter_(2, columns, numbers.expand(members.shape))
        self.lengths += members.sum(2)
