"""Batches in cycles: each record has one place in every cycle of steps; and who took part in which step, in one number."""

import numpy as np
from numpy.typing import NDArray

from audit.core.seeds import Seed
from audit.engine.random.sampling import Block, Indices, Law, Mask


def places(seed: Seed, population: int, cycle: int) -> Indices:
    """`(population,)` the place of each record in a cycle of `cycle` steps: uniform, and the same whoever else is there."""
    return np.asarray(seed.numpy().integers(cycle, size=population), dtype=np.int64)


class CyclicSampler:
    """Batches of N models together: step t takes the records in place t modulo the cycle, whose inverse is the law's rate.

    Arguments are as for `EnsembleSampler`.
    """

    def __init__(self, law: Law, seeds: tuple[Seed, ...], included: Mask, *, cycle: int, as_gradients: bool) -> None:
        self._steps, self._cycle = law.block_steps, cycle
        ordinary = law.population - included.shape[1]
        own = [places(seed, law.population, cycle) for seed in seeds]
        self._extra = np.stack([np.where(row, place[ordinary:], cycle) for row, place in zip(included, own, strict=True)])
        remainder = self._extra[:, :0] if as_gradients else self._extra
        self._as_gradients = as_gradients
        # records by place, ascending in each, so that a batch is read off and not searched for in every step
        columns = [np.concatenate([place[:ordinary], last]) for place, last in zip(own, remainder, strict=True)]
        number = np.int32 if law.population <= 2**31 else np.int64
        self._order = np.stack([np.argsort(column, kind="stable").astype(number) for column in columns])
        counts = np.stack([np.bincount(column, minlength=cycle + 1)[:cycle] for column in columns])
        self._counts, self._starts = counts, np.cumsum(counts, axis=1) - counts
        self._next = 0

    def block(self) -> Block:
        turns = (self._next + np.arange(self._steps)) % self._cycle
        self._next += self._steps
        counts, starts = self._counts.T[turns], self._starts.T[turns]
        columns = np.arange(counts.max(initial=0))
        index = np.zeros((*counts.shape, len(columns)), dtype=np.int64)
        for model, order in enumerate(self._order):
            present = columns < counts[:, model, None]
            index[:, model][present] = order[(starts[:, model, None] + columns)[present]]
        extra = self._extra == turns[:, None, None] if self._as_gradients else None
        return Block(index=index, counts=counts, extra=extra)


Words = NDArray[np.uint64]


def words(count: int) -> Words:
    """Return a fixed mixed number of 64 bits for each record (Steele et al. 2014, splitmix64)."""
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)), dtype=np.uint64)


class BatchDigests:
    """The sum of the members' words, modulo 2^64, of each batch as the engine takes it.

    Sums of batches, `batches` `(N, steps)`, add up, so that a cycle can be compared with all records that each model may
    sample, `population` `(N,)`. Two sets of records that differ by mistake have the same sum with a chance of 2^-64.
    """

    def __init__(self, included: Mask, population: int, steps: int) -> None:
        self._words = words(population)
        ordinary = population - included.shape[1]
        self._canaries = self._words[ordinary:]
        self.batches: Words = np.zeros((len(included), steps), dtype=np.uint64)
        self.population: Words = self._words[:ordinary].sum(dtype=np.uint64) + self._canary_rows(included)

    def add(self, block: Block, within: int, step: int) -> None:
        """Note the batches of a step, given by its number in the block and in the training."""
        index, counts = block.index[within], block.counts[within]
        present = np.arange(index.shape[1]) < counts[:, None]
        self.batches[:, step] = np.where(present, self._words[index], np.uint64(0)).sum(axis=1, dtype=np.uint64)
        if block.extra is not None:
            self.batches[:, step] += self._canary_rows(block.extra[within])

    def _canary_rows(self, present: Mask) -> Words:
        return np.asarray(np.where(present, self._canaries, np.uint64(0)).sum(axis=1, dtype=np.uint64))
