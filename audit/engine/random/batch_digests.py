"""Who took part in which step, in one number a batch: batches of the same members have the same, whatever their order."""

import numpy as np
from numpy.typing import NDArray

from audit.engine.random.sampling import Block, Mask

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
