"""Uniform numbers for the dropout of N models in a step: of a generator each, or of counters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from audit.core.seeds import Seed
from audit.engine.random.counter_streams import CounterStreams


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
