"""Batches in cycles: each record has one place in every cycle of steps, drawn once and independently of all others."""

from __future__ import annotations

import numpy as np

from audit.core.seeds import Seed
from audit.engine.sampling import Block, Indices, Law, Mask


def places(seed: Seed, population: int, cycle: int) -> Indices:
    """`(population,)` the place of each record in a cycle of `cycle` steps: uniform, and the same whoever else is there."""
    return np.asarray(seed.numpy().integers(cycle, size=population), dtype=np.int64)


class CyclicSampler:
    """Batches of N models together: step t takes the records whose place is t modulo the cycle.

    Args:
        law: over the shared records followed by all canaries; its rate is one over the cycle.
        seeds: one per model, of its places.
        included: `(N, m)` coins. A canary with coin 0 has a place like any other record and is left out.
        cycle: steps from one participation of a record to the next.
        as_gradients: canaries are reported in `Block.extra` instead of as records.
    """

    def __init__(self, law: Law, seeds: tuple[Seed, ...], included: Mask, *, cycle: int, as_gradients: bool) -> None:
        self._law, self._cycle, self._as_gradients = law, cycle, as_gradients
        self._included = included
        self._places = np.stack([places(seed, law.population, cycle) for seed in seeds])
        self._next = 0

    def block(self) -> Block:
        """The next `law.block_steps` batches of every model."""
        steps, models, canaries = self._law.block_steps, len(self._places), self._included.shape[1]
        ordinary = self._law.population - canaries
        batches, extra = [], np.zeros((steps, models, canaries), dtype=bool)
        for step in range(steps):
            taking = self._places == (self._next + step) % self._cycle
            taking[:, ordinary:] &= self._included
            if self._as_gradients:
                extra[step] = taking[:, ordinary:]
                taking = taking[:, :ordinary]
            batches.append([np.flatnonzero(row) for row in taking])
        self._next += steps
        counts = np.array([[len(batch) for batch in step] for step in batches], dtype=np.int64)
        index = np.zeros((steps, models, int(counts.max(initial=0))), dtype=np.int64)
        for step, rows in enumerate(batches):
            for model, batch in enumerate(rows):
                index[step, model, : len(batch)] = batch
        return Block(index=index, counts=counts, extra=extra if self._as_gradients else None)
