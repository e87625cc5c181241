"""Draws of dropout, made once by the engine and used again by a module of one model, so that the two can be compared."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from audit.core.seeds import Seed
from audit.engine.device import switched
from audit.engine.gradients.clipping import Gradients
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.gradients.per_model_loop import LoopGradients
from audit.engine.layers.layer_map import DROPOUTS
from audit.engine.random.random_operations import ConstantDraws
from audit.models.build import seeded_stream


class GivenDropout(nn.Module):
    """A dropout layer with given factors: in the order of the calls, one tensor for each."""

    def __init__(self, training: bool, ask: Callable[[], Tensor]) -> None:
        super().__init__()
        self.training, self._ask = training, ask

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self._ask() if self.training else inputs


def with_factors(module: nn.Module, factors: Sequence[Tensor]) -> nn.Module:
    """A copy of `module` with dropout layers that multiply with `factors`, `(rows, ...)` each, one call after another."""
    remaining: Iterator[Tensor] = iter(factors)
    memo = {
        id(layer): GivenDropout(layer.training and float(getattr(layer, "p")) > 0.0, lambda: next(remaining))  # noqa: B009
        for layer in module.modules()
        if type(layer) in DROPOUTS
    }
    return copy.deepcopy(module, memo)


def cut_rows(factors: Sequence[Tensor], section: slice, total: int) -> list[Tensor]:
    """Return the factors of some rows of `total`, all of them if a row has several along the first axis."""
    widths = [len(factor) // total for factor in factors]
    return [factor[section.start * width : section.stop * width] for factor, width in zip(factors, widths, strict=True)]


@contextmanager
def kept_factors(engine: Gradients) -> Iterator[list[Tensor]]:
    """A scope in which the factors of the dropout of models in one pass are kept, in the order of the calls."""
    factors: list[Tensor] = []
    with switched([(engine.tape, "factors", factors)] if isinstance(engine, TapeGradients) else []):
        yield factors


def can_repeat(engine: Gradients) -> bool:
    """True if the draws of a pass can be made again, or held still, for a second computation."""
    return not engine.random or isinstance(engine, TapeGradients) or engine.flat.device.type == "cpu"


def still(engine: Gradients, work: Callable[[], dict[int, float]]) -> dict[int, float]:
    """Return what `work` gives, with all draws held still if models run one after another; {} if some cannot be held.

    Models of one pass keep their draws, as factors.
    """
    if not engine.random or not isinstance(engine, LoopGradients):
        return work()
    vectorises = engine.vectorises
    with seeded_stream(Seed(0)), ConstantDraws() as draws:
        figures = work()
    engine.vectorises = vectorises  # whatever held draws did to `vmap`, the training goes its way
    return {} if draws.free else figures
