"""Sampled batches as tensors on the device, cut into passes of a fixed number of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from audit.engine.sampling import ALIGNMENT, Block, Indices, Law

# what a further pass costs, in rows of the first one; models that share a step, of which any may need it
_PASS_COST, _SHARING = 32, 12


def planned_rows(law: Law) -> int:
    """Rows of the first pass over a batch, a multiple of 16: the number that is expected to cost least.

    More rows are padding in most steps; fewer need a further, narrow pass more often. A function of the law alone: a
    model's arithmetic has the same shape whatever batches its neighbours draw.
    """
    spread = math.sqrt(max(law.mean * (1.0 - law.rate), 0.25))

    def needed(rows: int) -> float:
        """Probability that a batch of any of the models is longer."""
        beyond = 0.5 * math.erfc((rows + 0.5 - law.mean) / spread / math.sqrt(2.0))
        return 1.0 - (1.0 - beyond) ** _SHARING

    def cost(rows: int) -> float:
        return rows + (ALIGNMENT + _PASS_COST) * sum(map(needed, range(rows, law.rows + 1, ALIGNMENT)))

    fewest = max(ALIGNMENT, int(law.mean) // ALIGNMENT * ALIGNMENT)
    return min(range(fewest, law.rows + 1, ALIGNMENT), key=cost)


class Passes:
    """The passes of each step of a block: of `rows` rows a model up to `planned`, then narrow ones for what did not fit."""

    def __init__(self, rows: int, planned: int, device: torch.device) -> None:
        self._rows = rows
        self._planned = planned
        self._device = device
        self._block: Block | None = None

    def load(self, block: Block) -> None:
        """Makes `block` the one that `of_step` refers to."""
        self._block = block
        self._index = self._tensor(block.index, 0, self._rows)
        self._mask = torch.from_numpy(np.arange(self._rows) < block.counts[:, :, None]).to(self._device)
        self._largest = block.counts.max(axis=1, initial=0)

    def _tensor(self, index: Indices, start: int, width: int) -> Tensor:
        """Columns `start` to `start + width`, `(..., N * width)`; 0 where there are none."""
        made = np.zeros((*index.shape[:-1], width), dtype=np.int64)
        found = index[..., start : start + width]
        made[..., : found.shape[-1]] = found
        return torch.from_numpy(made.reshape(*index.shape[:-2], -1)).to(self._device)

    def of_step(self, within: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Record numbers `(N * rows,)` and the mask of real rows `(N, rows)` of each pass."""
        largest = int(self._largest[within])
        if self._block is None or largest == 0:
            return
        yield self._index[within], self._mask[within]
        start = self._rows
        while start < largest:
            width = self._rows if start < self._planned else ALIGNMENT
            mask = np.arange(start, start + width) < self._block.counts[within][:, None]
            yield self._tensor(self._block.index[within], start, width), torch.from_numpy(mask).to(self._device)
            start += width
