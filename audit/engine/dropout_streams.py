"""Uniform numbers for the dropout of N models in a step: of a generator each, or of counters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from audit.core.seeds import Seed
from audit.engine.counter_streams import CounterStreams


class DropoutDraws(Protocol):
    """Draws of one step, call after call."""

    def uniforms(self, shape: Sequence[int]) -> Tensor: ...


class GeneratorDraws:
    """Each model draws from a generator of its own, one launch a model."""

    def __init__(self, seeds: Sequence[Seed], device: torch.device) -> None:
        self._device = device
        self._generators = [torch.Generator(device=device) for _ in seeds]
        for generator, seed in zip(self._generators, seeds, strict=True):
            generator.manual_seed(seed.integer())

    def uniforms(self, shape: Sequence[int]) -> Tensor:
        """`(N * rows, ...)` uniform numbers in [0, 1), `shape` being `(rows, ...)` of one model."""
        return torch.cat([torch.rand(*shape, generator=generator, device=self._device) for generator in self._generators])


class CounterDraws:
    """All models draw together; the calls of a step are its draws 0, 1 and so on."""

    def __init__(self, streams: CounterStreams, step: int) -> None:
        self._streams = streams
        self._steps = torch.full((1,), step, device=streams.device)
        self._calls = 0

    def uniforms(self, shape: Sequence[int]) -> Tensor:
        """`(N * rows, ...)` uniform numbers in [0, 1), `shape` being `(rows, ...)` of one model."""
        numbers = self._streams.uniforms(self._steps, math.prod(shape), self._calls)
        self._calls += 1
        return numbers.view(self._streams.models * shape[0], *shape[1:])
