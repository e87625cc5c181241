"""Sampled batches as tensors on the device, cut into passes of a fixed number of rows."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from audit.core.errors import DataError
from audit.engine.device import on_device
from audit.engine.parameter_layout import ALIGNMENT
from audit.engine.random.counter_batches import DeviceBlock
from audit.engine.random.sampling import Block, Law

# what a further pass costs, in rows of the first one; models that share a step, of which any may need it
_PASS_COST, _SHARING = 32, 12


def planned_rows(law: Law) -> int:
    """Rows of the first pass over a batch, a multiple of 16: the number that is expected to cost least.

    More rows are padding in most steps; fewer need a further, narrow pass more often. A function of the law alone: a
    model's arithmetic has the same shape whatever batches its neighbours draw.
    """
    std = math.sqrt(max(law.mean * (1.0 - law.rate), 0.25))

    def rows_needed(rows: int) -> float:
        """Probability that a batch of any of the models is longer."""
        beyond = 0.5 * math.erfc((rows + 0.5 - law.mean) / std / math.sqrt(2.0))
        return 1.0 - (1.0 - beyond) ** _SHARING

    def cost(rows: int) -> float:
        return rows + (ALIGNMENT + _PASS_COST) * sum(map(rows_needed, range(rows, law.rows + 1, ALIGNMENT)))

    fewest = max(ALIGNMENT, int(law.mean) // ALIGNMENT * ALIGNMENT)
    return min(range(fewest, law.rows + 1, ALIGNMENT), key=cost)


class Passes:
    """The passes of each step of a block: of `rows` rows a model up to `planned`, then narrow ones for what did not fit.

    Without a plan (`planned_width` None) the one model of a chunk has the fewest passes of at most `rows` rows, equally long.
    Its arithmetic depends on its own batch, and on nothing beside it.
    """

    def __init__(self, rows: int, planned_width: int | None, device: torch.device) -> None:
        self._rows = rows
        self._planned_width = planned_width
        self._device = device
        self._parts: list[tuple[Tensor, Tensor]] = []
        self._extra: Tensor | None = None

    def load(self, block: Block | DeviceBlock) -> None:
        """Makes `block` the one that `iterate_step` refers to."""
        # on a device all steps have a first pass, so that all launch the same
        self._largest = block.counts.max(axis=1, initial=int(isinstance(block, DeviceBlock)))
        largest = int(self._largest.max(initial=0))
        cuts = list(self._cuts(largest)) if self._planned_width is not None else [(0, largest)]
        index = torch.as_tensor(block.index)
        lengths = block.lengths if isinstance(block, DeviceBlock) else torch.from_numpy(block.counts)
        self._parts = [self._part(index, lengths, start, width) for start, width in cuts]
        self._extra = None if block.extra is None else self._send(torch.as_tensor(block.extra))

    def _cuts(self, largest: int) -> Iterator[tuple[int, int]]:
        """First row and number of rows of each pass over a batch of `largest` records."""
        start, equal = 0, math.ceil(largest / max(1, math.ceil(largest / self._rows)))
        while start < largest:
            width = min(equal, largest - start) if self._planned_width is None else self._width_by_plan(start)
            yield start, width
            start += width

    def _width_by_plan(self, start: int) -> int:
        """Rows of the pass that begins at row `start`, which the plan alone decides."""
        plan = self._planned_width or self._rows
        return self._rows if start == 0 else max(ALIGNMENT, min(self._rows, plan - start))

    def _part(self, index: Tensor, lengths: Tensor, start: int, width: int) -> tuple[Tensor, Tensor]:
        """Record numbers `(steps, N * width)`, 0 if there are none, and masks `(steps, N, width)` of a pass of each step."""
        numbers = index[..., start : start + width]
        numbers = F.pad(numbers, (0, width - numbers.shape[-1]))
        places = torch.arange(start, start + width, device=index.device)
        return self._send(numbers.flatten(1)), self._send(places < lengths.unsqueeze(-1))

    def _send(self, values: Tensor) -> Tensor:
        """`values` on the device, on their way while the host continues."""
        if self._device.type != "cuda" or on_device(values):
            return values.to(self._device)
        return values.pin_memory().to(self._device, non_blocking=True)

    def extra_canaries(self, within: int) -> Tensor:
        """`(N, m)` which gradient canaries take part in a step of the block, which must have some."""
        if self._extra is None:
            raise DataError("a block without gradient canaries was asked which of them take part")
        return self._extra[within]

    def iterate_step(self, within: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Record numbers `(N * rows,)` and the mask of real rows `(N, rows)` of each pass."""
        cuts = list(self._cuts(int(self._largest[within])))
        if self._planned_width is None:  # the one part is as wide as the largest batch of the block
            index, mask = self._parts[0]
            for start, width in cuts:
                yield index[within, start : start + width], mask[within, :, start : start + width]
            return
        for (index, mask), _ in zip(self._parts, cuts, strict=False):
            yield index[within], mask[within]
