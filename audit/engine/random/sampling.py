"""Poisson batches: every record takes part in every step by an independent coin."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.core.seeds import Seed
from audit.engine.parameter_layout import align_up

Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]

_BLOCK_DRAWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """Each of `population` records enters each step with probability `rate`, independently."""

    population: int
    rate: float

    @property
    def mean(self) -> float:
        return self.population * self.rate

    @property
    def block_steps(self) -> int:
        """Steps drawn at once: a function of the law alone, so that a stream does not depend on who shares the run."""
        return max(1, min(64, int(_BLOCK_DRAWS / max(1.0, self.mean))))

    @property
    def rows(self) -> int:
        """Rows reserved for a batch: about three standard deviations above the mean, a multiple of 16.

        A function of the law alone: a model's arithmetic has the same shape whatever batches its neighbours draw.
        What does not fit goes through in further passes.
        """
        margin = 3.0 * math.sqrt(max(self.mean * (1.0 - self.rate), 0.25))
        return align_up(min(self.population, math.ceil(self.mean + margin)))

    @property
    def most_rows(self) -> int:
        """Rows that hold nearly any batch: eight standard deviations above the mean."""
        return align_up(min(self.population, math.ceil(self.mean + 8.0 * math.sqrt(max(self.mean, 1.0)))))


class PoissonStream:
    """The batches of one model, step after step, from one random stream."""

    def __init__(self, law: Law, seed: Seed) -> None:
        self._law = law
        self._generator = seed.numpy()

    def block(self) -> tuple[Indices, Indices]:
        """The next `law.block_steps` batches as `(step, record)` pairs, sorted by step, then record.

        Runs of independent coins are read off their gaps: the distance to the next head is geometric, so the
        cost is that of the batch, not of the population, and no approximation is made.
        """
        law = self._law
        trials = law.block_steps * law.population
        if law.rate == 0.0 or trials == 0:
            empty = np.empty(0, dtype=np.int64)
            return empty, empty
        heads = self._heads(trials)
        return heads // law.population, heads % law.population

    def _heads(self, trials: int) -> Indices:
        mean_count = trials * self._law.rate
        draw = int(mean_count + 6.0 * math.sqrt(mean_count) + 16.0)
        last, pieces = np.int64(-1), []
        while last < trials:
            # a gap never needs to exceed the trials left; capping keeps the sums far from overflow at tiny rates
            gaps = np.minimum(self._generator.geometric(self._law.rate, size=draw), trials + 1)
            piece = last + np.cumsum(gaps, dtype=np.int64)
            pieces.append(piece)
            last = piece[-1]
        heads = np.concatenate(pieces)
        # draws beyond the block are dropped: geometric gaps have no memory, so the next block begins anew
        return heads[: np.searchsorted(heads, trials)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Batches of N models for `steps` steps."""

    index: Indices  # `(steps, N, width)` record numbers, ascending, padded with 0
    counts: Indices  # `(steps, N)` records of each batch that are in `index`
    extra: Mask | None  # `(steps, N, m)` which of the gradient canaries take part, or None if there are none

    def sizes(self, within: int) -> Indices:
        """`(N,)` records and gradient canaries of each batch of a step of the block."""
        counts: Indices = self.counts[within]
        return counts if self.extra is None else counts + self.extra[within].sum(1)


class EnsembleSampler:
    """Batches of N models together, each from its own stream.

    The law is over the shared records followed by all canaries. A canary with coin 0 in `included` `(N, m)` is drawn like any
    other record and left out, so the batches of everything else do not depend on the coins. With `as_gradients`, canaries are
    reported in `extra` instead of as records.
    """

    def __init__(self, law: Law, seeds: tuple[Seed, ...], included: Mask, *, as_gradients: bool) -> None:
        self._law = law
        self._included = included
        self._as_gradients = as_gradients
        self._streams = [PoissonStream(law, seed) for seed in seeds]

    def block(self) -> Block:
        """The next `law.block_steps` batches of every model."""
        steps, count, canaries = self._law.block_steps, len(self._streams), self._included.shape[1]
        ordinary = self._law.population - canaries
        counts = np.zeros((steps, count), dtype=np.int64)
        extra = np.zeros((steps, count, canaries), dtype=bool) if self._as_gradients else None
        draws = []
        for model, stream in enumerate(self._streams):
            step, record = stream.block()
            is_canary = record >= ordinary
            if is_canary.any():
                mask = ~is_canary
                mask[is_canary] = self._included[model, record[is_canary] - ordinary]
                step, record, is_canary = step[mask], record[mask], is_canary[mask]
                if extra is not None:
                    extra[step[is_canary], model, record[is_canary] - ordinary] = True
                    step, record = step[~is_canary], record[~is_canary]
            counts[:, model] = np.bincount(step, minlength=steps)
            draws.append((step, record))
        index = np.zeros((steps, count, int(counts.max(initial=0))), dtype=np.int64)
        for model, (step, record) in enumerate(draws):
            starts = np.cumsum(counts[:, model]) - counts[:, model]
            index[step, model, np.arange(len(step)) - starts[step]] = record
        return Block(index=index, counts=counts, extra=extra)
