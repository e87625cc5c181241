"""Whether a model's output for a record depends on the other records of its batch, found by trying it out."""

import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from audit.core.seeds import Seed
from audit.engine.gradients.trials import CODE_ERRORS, agree
from audit.engine.layers.modes import Modes
from audit.engine.random.random_operations import ConstantDraws
from audit.models.build import seeded_stream

# rounding of one precision between batches of several sizes, whose products may be summed in other orders
ROUNDING = {torch.float64: 1e-6, torch.float32: 1e-3}
COARSE_ROUNDING = 3e-2  # of half precision
_ALONE = 2


def alike(left: Tensor, right: Tensor) -> bool:
    """True if two outputs of a model differ by rounding alone, measured by the numbers themselves and by the size of all."""
    return agree(left.unsqueeze(0), right.unsqueeze(0), ROUNDING.get(left.dtype, COARSE_ROUNDING))


def mixes(module: nn.Module, records: Tensor) -> str | None:
    """Return how the output of a record depends on the others, in training or evaluation mode; None if it does not.

    Draws are held still. In double precision if the module's code allows it, so that only rounding is forgiven.
    """
    if len(records) < 2:
        return None
    precise, batch = _double(module, records)
    modes, buffers = Modes(precise), dict(precise.named_buffers())

    def run(part: Tensor) -> Tensor:
        torch.default_generator.manual_seed(0)
        fresh_buffers = {name: value.clone() for name, value in buffers.items()}
        outputs: Tensor = torch.func.functional_call(precise, fresh_buffers, (part,)) if buffers else precise(part)
        return outputs

    try:
        with torch.no_grad(), seeded_stream(Seed(0)), ConstantDraws():
            for mode in ("training", "evaluation"):
                dependence = _dependence(run, batch)
                if dependence is not None:
                    return f"{dependence}, in {mode} mode"
                modes.evaluate()
    finally:
        modes.train()
    return None


def _dependence(run: Callable[[Tensor], Tensor], batch: Tensor) -> str | None:
    full = run(batch)
    for words, parts in other_batches(len(batch), _ALONE):
        try:
            outputs = torch.cat([run(batch[part]) for part in parts])
        except CODE_ERRORS as error:
            return f"{words}: {str(error).partition(chr(10))[0]}"
        if not alike(outputs, full[torch.cat(parts)]):
            return f"{words} gives other outputs"
    return None


def other_batches(count: int, alone: int) -> Iterator[tuple[str, list[Tensor]]]:
    """Yield other batches of `count` records, in words and by their places; `alone` records are asked about one by one."""
    # a generator of its own leaves the stream of the training where it is
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    yield "half the batch, in another order,", [order[: count // 2], order[count // 2 :]]
    yield "a record alone", [torch.tensor([row]) for row in range(min(alone, count))]


def _double(module: nn.Module, records: Tensor) -> tuple[nn.Module, Tensor]:
    """Module and records in double precision, or as they are if the module's code insists on its own."""
    precise = copy.deepcopy(module).double()
    batch = records.double() if records.is_floating_point() else records
    try:
        with torch.no_grad(), seeded_stream(Seed(0)):
            wide = precise(batch[:2].clone()).dtype == torch.float64
    except CODE_ERRORS:
        return module, records
    return (precise, batch) if wide else (module, records)
