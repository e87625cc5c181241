"""Batches in cycles: each record has one place in every cycle of steps, drawn once and independently of all others."""

import numpy as np

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
