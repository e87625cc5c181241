"""Random numbers of N models, each from its own stream, of a generator or of counters: Gaussian noise, and dropout's."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from audit.core.seeds import Seed
from audit.engine.parameter_layout import Layout
from audit.engine.random.counter_streams import WORDS, CounterStreams

_BLOCK_NUMBERS, _BLOCK_STEPS = 1 << 16, 64
_DRAW_NUMBERS = 1 << 24  # made at once by counters, in some 30 times as many bytes


class NoiseSource(Protocol):
    """Standard normal numbers for the flat storage of N models, step after step."""

    def step(self) -> Tensor:
        """`(N, width)` numbers for the next step; 0 in the storage's padding. Overwritten by later calls."""


class NoiseStreams:
    """Standard normal numbers for the flat storage, independent between models, steps and coordinates.

    Numbers are drawn in blocks of several steps. The block depends on the layout alone, so what a model
    receives depends on its seed and on nothing that runs beside it.
    """

    def __init__(self, layout: Layout, seeds: tuple[Seed, ...], like: Tensor) -> None:
        self._generators = [torch.Generator(device=like.device).manual_seed(seed.integer()) for seed in seeds]
        steps = max(1, min(_BLOCK_STEPS, _BLOCK_NUMBERS // layout.width))
        self._block = torch.empty(len(seeds), steps, layout.width, dtype=like.dtype, device=like.device)
        self._gaps = gaps(layout)
        self._next = steps

    def step(self) -> Tensor:
        if self._next == self._block.shape[1]:
            for model, generator in enumerate(self._generators):
                self._block[model].normal_(generator=generator)
            # no parameter is there, and the noise that is measured is summed over the whole row
            for start, stop in self._gaps:
                self._block[:, :, start:stop] = 0.0
            self._next = 0
        self._next += 1
        return self._block[:, self._next - 1]


class CounterNoise:
    """Noise of N models from counters of step and coordinate: some 100 launches for all models and many steps.

    Any arrangement of models and steps gives the same bits on one device. Devices agree to rounding: logarithm, sine and
    cosine in double precision are each library's own.
    """

    def __init__(self, layout: Layout, seeds: tuple[Seed, ...], like: Tensor) -> None:
        self._streams = CounterStreams(seeds, like.device)
        rows = max(1, len(seeds) * layout.width)
        steps = max(1, min(_BLOCK_STEPS, _DRAW_NUMBERS // rows))
        self._block = torch.empty(steps, len(seeds), layout.width, dtype=like.dtype, device=like.device)
        self._columns = max(WORDS, _DRAW_NUMBERS // (steps * len(seeds)) // WORDS * WORDS)
        padding = [torch.arange(start, stop) for start, stop in gaps(layout)]
        self._padding = torch.cat(padding).to(like.device) if padding else None
        self._first, self._next = 0, steps

    def step(self) -> Tensor:
        if self._next == len(self._block):
            self._draw()
        self._next += 1
        return self._block[self._next - 1]

    def _draw(self) -> None:
        steps, width = len(self._block), self._block.shape[-1]
        moments = torch.arange(self._first, self._first + steps, device=self._block.device)
        for start in range(0, width, self._columns):
            count = min(self._columns, width - start)
            self._block[..., start : start + count] = self._streams.normals(moments, start, count)
        if self._padding is not None:
            self._block.index_fill_(-1, self._padding, 0.0)
        self._first, self._next = self._first + steps, 0


def make_noise(layout: Layout, seeds: tuple[Seed, ...], like: Tensor, *, counters: bool) -> NoiseSource:
    """Return the noise of models with the flat parameters `like` `(N, width)`, on their device."""
    return CounterNoise(layout, seeds, like) if counters else NoiseStreams(layout, seeds, like)


def gaps(layout: Layout) -> list[tuple[int, int]]:
    """Return the columns of the flat storage in which no parameter is: from and up to."""
    ends = [slot.start for slot in layout.slots[1:]] + [layout.width]
    pairs = ((slot.start + slot.size, end) for slot, end in zip(layout.slots, ends, strict=True))
    return [(start, stop) for start, stop in pairs if start < stop]


class GeneratorDraws:
    """Draws of one step, call after call: each model draws from its own generator, one launch a model."""

    def __init__(self, seeds: Sequence[Seed], device: torch.device) -> None:
        self._device = device
        self._generators = [torch.Generator(device=device).manual_seed(seed.integer()) for seed in seeds]

    def uniforms(self, shape: Sequence[int]) -> Tensor:
        """`(N * rows, ...)` uniform numbers in [0, 1), `shape` being `(rows, ...)` of one model."""
        return torch.cat([torch.rand(*shape, generator=generator, device=self._device) for generator in self._generators])


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A pass over some rows of each model's batch: the step, its first row in the batch, and how many it has."""

    step: int
    first: int
    rows: int


class CounterDraws:
    """All models draw together in a pass; its calls are draws 0, 1 and so on of the step.

    A row draws the same however a batch is cut into passes.
    """

    def __init__(self, streams: CounterStreams, place: Place) -> None:
        self._streams, self._place = streams, place
        self._steps = torch.full((1,), place.step, device=streams.device)
        self._calls = 0

    def uniforms(self, shape: Sequence[int]) -> Tensor:
        count = math.prod(shape)
        start = self._place.first * -(-count // self._place.rows)
        numbers = self._streams.uniforms(self._steps, start, count, self._calls)
        self._calls += 1
        return numbers.view(self._streams.models * shape[0], *shape[1:])
