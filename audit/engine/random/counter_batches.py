"""Poisson batches drawn on the device: the coins of a step are a function of the model's key and the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from audit.core.seeds import Seed
from audit.engine.parameter_layout import align_up
from audit.engine.random.counter_streams import CounterStreams
from audit.engine.random.sampling import Indices, Law, Mask

_DRAW_COINS = 1 << 24  # tossed at once, in some 60 times as many bytes
_RARE = 1.0 / 16.0  # rate up to which the distances between members are drawn, and not a coin for each record
_SPARE = 16  # distances beyond the rows of a batch: the last one has to pass the last record


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceBlock:
    """Batches of N models for `steps` steps, as `Block` has them, on the device that drew them."""

    index: Tensor  # `(steps, N, width)` record numbers, ascending, padded with 0; as wide as any batch, or wider
    lengths: Tensor  # `(steps, N)` records of each batch that are in `index`
    extra: Tensor | None  # `(steps, N, m)` which of the gradient canaries take part, or None if there are none
    counts: Indices  # `lengths` on the host
    totals: Indices  # the same with gradient canaries

    def sizes(self, within: int) -> Indices:
        totals: Indices = self.totals[within]
        return totals


class CounterSampler:
    """Batches of N models together, drawn on a device.

    Each record has its own coin in every step, so the law is that of Poisson sampling, whatever a batch's length: rows are
    reserved for eight standard deviations above the mean, and a block with a longer batch is laid out once more. If members
    are rare the distance from one to the next is drawn, which is geometric: the same law for the cost of a batch and not of all
    records. The host waits once a block of steps, for the lengths of its batches. Arguments are as for `EnsembleSampler`.
    """

    def __init__(self, law: Law, seeds: tuple[Seed, ...], included: Mask, *, as_gradients: bool, device: torch.device) -> None:
        self._law = law
        self._streams = CounterStreams(seeds, device)
        self._included = torch.from_numpy(included).to(device)
        self._as_gradients = as_gradients
        self._device = device
        self._first = 0

    def block(self) -> DeviceBlock:
        law = self._law
        width = law.most_rows
        while True:
            block = self._batches(width)
            lengths, extra = block.lengths, block.extra
            totals = lengths + extra.sum(2) if self._as_gradients else lengths
            counts, sizes, open_ends = torch.stack([lengths, totals, block.open_ends]).cpu().numpy()
            if counts.max(initial=0) <= width and not open_ends.any():
                break
            width = align_up(max(int(counts.max(initial=0)), 2 * width if open_ends.any() else 0))
        self._first += law.block_steps
        members = extra if self._as_gradients else None
        return DeviceBlock(index=block.index[..., :width], lengths=lengths, extra=members, counts=counts, totals=sizes)

    def _batches(self, width: int) -> _Part:
        """Return the block's batches, in rows of `width`."""
        law = self._law
        draws = width + _SPARE if self._is_rare else law.population
        steps = max(1, _DRAW_COINS // max(1, self._streams.models * draws))
        end = self._first + law.block_steps
        parts = [self._part(start, min(start + steps, end), width) for start in range(self._first, end, steps)]
        return parts[0] if len(parts) == 1 else _Part.join(parts)

    @property
    def _is_rare(self) -> bool:
        return 0.0 < self._law.rate <= _RARE

    def _part(self, start: int, stop: int, width: int) -> _Part:
        """Batches of some steps, with coins tossed in as many pieces as memory asks for."""
        steps = torch.arange(start, stop, device=self._device)
        models, canaries = self._included.shape
        part = _Part.empty(len(steps), models, width, self._device)
        ordinary = self._law.population - canaries
        piece = max(1, _DRAW_COINS // max(1, len(steps) * models))
        if self._is_rare:
            self._add_by_distance(part, steps, piece)
        else:
            for first in range(0, ordinary, piece):
                count = min(piece, ordinary - first)
                part.add(self._numbers(first, count), self._streams.heads(steps, first, count, self._law.rate))
            part.extra = self._streams.heads(steps, ordinary, canaries, self._law.rate)
        part.extra = part.extra & self._included
        if not self._as_gradients:
            part.add(self._numbers(ordinary, canaries), part.extra)
        return part

    def _add_by_distance(self, part: _Part, steps: Tensor, piece: int) -> None:
        """Add the members of some steps by their distances; a batch whose last distance ends before the last record is open."""
        law, canaries = self._law, self._included.shape[1]
        ordinary, draws = law.population - canaries, part.width + _SPARE
        extra = torch.zeros(len(steps), self._streams.models, canaries + 1, dtype=torch.bool, device=self._device)
        last = torch.full((len(steps), self._streams.models, 1), -1, device=self._device)
        for first in range(0, draws, piece):
            distances = self._streams.gaps(steps, first, min(piece, draws - first), law.rate, law.population + 1)
            numbers = distances.cumsum(2).add_(last)
            last = numbers[..., -1:]
            part.add(numbers, numbers < ordinary)
            is_canary = (numbers >= ordinary) & (numbers < law.population)
            extra.scatter_(2, torch.where(is_canary, numbers - ordinary, canaries), True)
        part.extra = extra[..., :canaries]
        part.open_ends = (last < law.population).squeeze(2).long()

    def _numbers(self, first: int, count: int) -> Tensor:
        return torch.arange(first, first + count, device=self._device)


@dataclass(slots=True, kw_only=True, eq=False)
class _Part:
    """Batches of some steps while they grow."""

    index: Tensor  # `(steps, N, width + 1)` record numbers; the last column is for what is no member
    lengths: Tensor  # `(steps, N)`
    extra: Tensor  # `(steps, N, m)` which canaries take part
    open_ends: Tensor  # `(steps, N)` 1 if too few distances were drawn to know the whole batch

    @classmethod
    def empty(cls, steps: int, models: int, width: int, device: torch.device) -> _Part:
        index = torch.zeros(steps, models, width + 1, dtype=torch.int64, device=device)
        lengths, open_ends = torch.zeros(2, steps, models, dtype=torch.int64, device=device)
        extra = torch.zeros(steps, models, 0, dtype=torch.bool, device=device)
        return cls(index=index, lengths=lengths, extra=extra, open_ends=open_ends)

    @classmethod
    def join(cls, parts: Sequence[_Part]) -> _Part:
        names = ("index", "lengths", "extra", "open_ends")
        return cls(**{name: torch.cat([getattr(part, name) for part in parts]) for name in names})

    @property
    def width(self) -> int:
        """Members of a batch that there is room for."""
        return self.index.shape[2] - 1

    def add(self, numbers: Tensor, members: Tensor) -> None:
        """Append the records `numbers` `(count,)` or `(steps, N, count)` that `members` `(steps, N, count)` says take part."""
        ranks = members.cumsum(2).add_(self.lengths.unsqueeze(2))
        # what is no member, or beyond the width, goes to the last column
        columns = torch.where(members & (ranks <= self.width), ranks - 1, self.width)
        self.index.scatter_(2, columns, numbers.expand(members.shape))
        self.lengths += members.sum(2)
