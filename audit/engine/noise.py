"""Gaussian noise of N models, each from its own stream."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from audit.core.seeds import Seed
from audit.engine.parameter_layout import Layout

_BLOCK_NUMBERS = 1 << 16


class NoiseSource(Protocol):
    """Standard normal numbers for the flat storage of N models, step after step."""

    def step(self) -> Tensor: ...


class NoiseStreams:
    """Standard normal numbers for the flat storage, independent between models, steps and coordinates.

    Numbers are drawn in blocks of several steps. The block depends on the layout alone, so what a model
    receives depends on its seed and on nothing that runs beside it.
    """

    def __init__(self, layout: Layout, seeds: tuple[Seed, ...], like: Tensor) -> None:
        self._generators = []
        for seed in seeds:
            generator = torch.Generator(device=like.device)
            generator.manual_seed(seed.integer())
            self._generators.append(generator)
        steps = max(1, min(64, _BLOCK_NUMBERS // layout.width))
        self._block = torch.empty(len(seeds), steps, layout.width, dtype=like.dtype, device=like.device)
        self._gaps = gaps(layout)
        self._next = steps

    def step(self) -> Tensor:
        """`(N, width)` numbers for the next step; 0 in the storage's padding. Overwritten by later calls."""
        if self._next == self._block.shape[1]:
            for model, generator in enumerate(self._generators):
                self._block[model].normal_(generator=generator)
            # no parameter lies there, and the noise that is measured is summed over the whole row
            for start, stop in self._gaps:
                self._block[:, :, start:stop] = 0.0
            self._next = 0
        self._next += 1
        return self._block[:, self._next - 1]


def gaps(layout: Layout) -> list[tuple[int, int]]:
    """Return the columns of the flat storage in which no parameter lies: from and up to."""
    ends = [slot.start for slot in layout.slots[1:]] + [layout.width]
    pairs = ((slot.start + slot.size, end) for slot, end in zip(layout.slots, ends, strict=True))
    return [(start, stop) for start, stop in pairs if start < stop]
