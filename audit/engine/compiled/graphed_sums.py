"""The sums of a pass as one CUDA graph: its kernels are launched by one call, from the third pass of a shape on.

A graph repeats what was launched while it was captured, in the same memory. So what a pass reads has to be where it lay then,
and its code must not decide by numbers of the device: batches are copied into their own place, parameters, records and
sums are updated in place, and what draws or changes from step to step by the host's hand is refused. What no one refused, a
number of the host's that a module keeps between calls, is looked for: the 1st, 2nd, 4th, 8th ... repetition of each shape runs
once more as it is, and a training ends, or begins again without graphs, if its sums differ.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from audit.core.errors import ConfigError, ExecutionMismatch
from audit.engine.gradients.clipping import Clipping

_EAGER_PASSES = 2  # of each shape, so that libraries have loaded their kernels and tables are made
_FLOOR = 1e-3  # of the sum so far: single precision loses what a far smaller pass adds to it
# largest distance of a repeated pass to the pass as it is, of what it adds: a library may choose another kernel, whose rounding
# is that of the numbers that it multiplies
_LIMIT, _SHORT_LIMIT = 1e-3, 5e-2

Work = Callable[[Tensor, Tensor], Clipping | None]
Capture = Callable[[Callable[[], None]], Callable[[], None]]


class CaptureError(ConfigError):
    """A pass that CUDA cannot capture."""


class RepetitionError(ExecutionMismatch):
    """A repeated pass that adds something else than the pass does."""


GRAPH_ERRORS = (CaptureError, RepetitionError)


@dataclass(slots=True, kw_only=True, eq=False)
class Graph:
    """One captured graph: where it reads the batch, its results, how it is run, and how often that was done."""

    index: Tensor
    mask: Tensor
    clipping: Clipping | None
    replay: Callable[[], None]
    repetitions: int = 0

    def repeat(self, rows_at: Tensor, mask: Tensor) -> Clipping | None:
        """Run the pass on another batch; the result is overwritten by the next."""
        self.index.copy_(rows_at)
        self.mask.copy_(mask)
        self.replay()
        return self.clipping


class GraphedSums:
    """Passes of a few shapes, each captured once, that add to the sums `total` `(N, width)`, always in the same place.

    With `short`, numbers that are multiplied are shorter than single precision. `capture` runs its argument so that only its
    launches are noted, and returns what launches it again.
    """

    def __init__(self, total: Tensor, *, short: bool = False, capture: Capture | None = None) -> None:
        self._total, self._limit = total, _SHORT_LIMIT if short else _LIMIT
        self._capture = capture or _cuda_graph
        self._passes: dict[torch.Size, int] = {}
        self._graphs: dict[torch.Size, Graph] = {}

    def run(self, work: Work, rows_at: Tensor, mask: Tensor) -> Clipping | None:
        """Return what `work(rows_at, mask)`, of `(N * rows,)` and `(N, rows)`, returns; later passes overwrite it in its place.

        Raises:
            CaptureError: the pass cannot be captured.
            RepetitionError: a repeated pass adds something else than the pass does.
        """
        shape = mask.shape
        self._passes[shape] = self._passes.get(shape, 0) + 1
        if self._passes[shape] <= _EAGER_PASSES:
            return work(rows_at, mask)
        if shape not in self._graphs:
            index, own_mask, results = rows_at.clone(), mask.clone(), list[Clipping | None]()
            replay = self._capture(lambda: results.append(work(index, own_mask)))
            self._graphs[shape] = Graph(index=index, mask=own_mask, clipping=results[0], replay=replay)
        graph = self._graphs[shape]
        graph.repetitions += 1
        if graph.repetitions & (graph.repetitions - 1):
            return graph.repeat(rows_at, mask)
        return self._compare(graph, work, rows_at, mask)

    def _compare(self, graph: Graph, work: Work, rows_at: Tensor, mask: Tensor) -> Clipping | None:
        """Repeat a pass, and compare its sum with that of the pass as it is."""
        before = self._total.clone()
        plain = work(rows_at, mask)
        target = self._total.clone()
        self._total.copy_(before)
        clipping = graph.repeat(rows_at, mask)
        size = torch.maximum((target - before).norm(dim=1), _FLOOR * target.norm(dim=1))
        self._refuse("sums", self._total - target, size)
        if plain is not None and clipping is not None:
            self._refuse("norms", (clipping.left - plain.left) * mask, plain.left.norm(dim=1))
        return clipping

    def _refuse(self, name: str, difference: Tensor, size: Tensor) -> None:
        """Raise `RepetitionError` if `difference` `(N, ...)` is large; a model that diverged has no finite size."""
        share = difference.norm(dim=1) / size.clamp(min=1e-30)
        error = float(torch.where(size.isfinite(), share, 0.0).max())
        if not error <= self._limit:  # not a number is refused, too
            raise RepetitionError(
                f"passes are captured as graphs, and a repeated pass has {name} that differ from those of the pass as it is by "
                f"{error:.2g} of their size, where rounding stays below {self._limit:g}: it would train other models than the "
                "module. Look in forward() for numbers that are kept between calls; train without graphs"
            )


def _cuda_graph(launch: Callable[[], None]) -> Callable[[], None]:
    """Return what repeats `launch` on a GPU; raises as `_reason` says."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph):
            launch()
    except RuntimeError as error:
        torch.cuda.set_stream(stream)  # torch stays on the stream of the capture where its end fails
        raise _reason(error) from error
    return graph.replay


def _reason(error: RuntimeError) -> Exception:
    """Return what ended a capture: memory that ran out, which the end of the capture hides, or a sentence with the error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, torch.OutOfMemoryError):
            return cause
        cause = cause.__context__
    return CaptureError(f"CUDA cannot capture a pass of this training: {error}; train without graphs")


def refuse_capture(reasons: dict[str, bool]) -> None:
    """Raise `ConfigError` with those of the reasons that hold for a training with passes that no graph can repeat."""
    against = [reason for reason, holds in reasons.items() if holds]
    if against:
        raise ConfigError(f"graphs is set, but {'; '.join(against)}; a graph repeats the same launches in the same memory")
