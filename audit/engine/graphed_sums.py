"""The sums of a pass as one CUDA graph: its kernels are launched by one call, from the third pass of a shape on.

A graph repeats what was launched while it was captured, in the same memory. So what a pass reads has to lie where it lay then,
and its code must not decide by numbers of the device: batches are copied into a place of their own, parameters, records and
sums are updated in place, and what draws or changes from step to step by the host's hand is refused. Never run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from audit.core.errors import ConfigError
from audit.engine.clipping import Clipping

_EAGER_PASSES = 2  # of each shape, so that libraries have loaded their kernels and tables are made

Work = Callable[[Tensor, Tensor], Clipping | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """One graph: where it reads the batch, what it leaves, and how it is run."""

    index: Tensor
    mask: Tensor
    clipping: Clipping | None
    replay: Callable[[], None]


class GraphedSums:
    """Passes of a few shapes, each captured once.

    Args:
        capture: runs its argument so that only what it launches is noted; returns what launches it again.
    """

    def __init__(self, capture: Callable[[Callable[[], None]], Callable[[], None]] | None = None) -> None:
        self._capture = capture or _cuda_graph
        self._passes: dict[torch.Size, int] = {}
        self._graphs: dict[torch.Size, Graph] = {}

    def run(self, work: Work, rows_at: Tensor, mask: Tensor) -> Clipping | None:
        """Return what `work(rows_at, mask)` returns, which later passes overwrite.

        Args:
            work: the same in all calls; its memory stays where it is.
            rows_at: `(N * rows,)` record numbers.
            mask: `(N, rows)` which of them are real.
        """
        shape = mask.shape
        self._passes[shape] = self._passes.get(shape, 0) + 1
        if self._passes[shape] <= _EAGER_PASSES:
            return work(rows_at, mask)
        if shape not in self._graphs:
            self._graphs[shape] = self._new_graph(work, rows_at.clone(), mask.clone())
        graph = self._graphs[shape]
        graph.index.copy_(rows_at)
        graph.mask.copy_(mask)
        graph.replay()
        return graph.clipping

    def _new_graph(self, work: Work, index: Tensor, mask: Tensor) -> Graph:
        results: list[Clipping | None] = []
        replay = self._capture(lambda: results.append(work(index, mask)))
        return Graph(index=index, mask=mask, clipping=results[0], replay=replay)


def _cuda_graph(launch: Callable[[], None]) -> Callable[[], None]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    return graph.replay


def refuse_capture(reasons: dict[str, bool]) -> None:
    """Raise an error for a training whose passes no graph can repeat.

    Raises:
        ConfigError: one of the reasons holds.
    """
    against = [reason for reason, holds in reasons.items() if holds]
    if against:
        raise ConfigError(f"graphs is set, but {'; '.join(against)}; a graph repeats the same launches in the same memory")
