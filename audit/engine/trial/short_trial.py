"""A short trial that most models pass: the bits of a whole batch in single precision, and some records in double precision.

Kernels give a record of a batch the same bits whatever the other records are, so where half of a batch was replaced the rest
must not change by a bit: less escapes than in double precision, at a fifth of the time of a convolution. Each half is replaced
once, by the other, since one record alone may move all others; it then stands at two places, which must not differ either. What
changes with the size of the batch, a few records show. A model that stands out has done nothing wrong yet; the long trial
decides, and says what it is.
"""

import torch
from torch import Tensor, nn

from audit.core.seeds import Seed
from audit.engine.gradients.trials import CODE_ERRORS, agree, same_values, without_dropout
from audit.engine.layers.modes import Modes
from audit.engine.random.random_operations import ConstantDraws
from audit.engine.trial.foreign_streams import foreign_streams
from audit.engine.trial.mixing import alike, mixes
from audit.models.build import seeded_stream

_SHORT_BATCH = 5  # records, and two and three of them, and one
_ROUNDING = 2e-5  # of single precision; less than a long trial forgives, which looks at what is more


def stands_out(module: nn.Module, records: Tensor, outputs: Tensor) -> bool:
    """Return whether `module` may draw outside of dropout layers, keep a state, mix records, or hold parameters elsewhere.

    `outputs` are those of a first call for `records` `(n, ...)`, from torch's stream of seed 0.
    """
    try:
        return _differs(module, records, outputs) or mixes(module, records[:_SHORT_BATCH]) is not None
    except CODE_ERRORS:
        return True


def _differs(module: nn.Module, records: Tensor, outputs: Tensor) -> bool:
    """Return whether outputs differ where they should not; parameters are put back where they were."""
    half, other_half = torch.randperm(len(records), generator=torch.Generator().manual_seed(0)).tensor_split(2)
    half_twice, other_half_twice = _replaced(records, other_half, half), _replaced(records, half, other_half)
    plain_module, modes = without_dropout(module), Modes(module)
    pairs = []
    if plain_module is module:
        with ConstantDraws() as draws:
            second_outputs = _with_copies(module, half_twice)
        steady_outputs = outputs
        pairs += [_twice(second_outputs, half, other_half), (_run(module, records[:_SHORT_BATCH]), outputs)]
    else:
        second_outputs = _with_copies(module, half_twice)
        with ConstantDraws() as draws:
            steady_outputs = _run(plain_module, records)
    if draws.random_operations or not same_values(second_outputs[half], outputs[half]):
        return True
    modes.evaluate()
    try:
        with foreign_streams() as streams_moved, ConstantDraws() as draws:
            evaluation = _run(module, other_half_twice)
            names = streams_moved()
        few_evaluations = _run(module, other_half_twice[:_SHORT_BATCH])
    finally:
        modes.train()
    pairs += [_twice(evaluation, half, other_half), (few_evaluations, evaluation)]
    same_modes = same_values(evaluation[other_half], steady_outputs[other_half])
    return bool(names or draws.random_operations) or not (same_modes and all(_near(*pair) for pair in pairs))


def _replaced(records: Tensor, rows: Tensor, by: Tensor) -> Tensor:
    """Return `records` with those at `rows` replaced by those at the rows `by`, as far as there are enough."""
    count, values = min(len(rows), len(by)), records.clone()
    values[rows[:count]] = records[by[:count]]
    return values


def _twice(outputs: Tensor, half: Tensor, other_half: Tensor) -> tuple[Tensor, Tensor]:
    """Return the outputs of one half of the places and those of the other, which had the same records."""
    return outputs[half[: len(other_half)]], outputs[other_half]


def _near(left: Tensor, right: Tensor) -> bool:
    """Return whether the first of the outputs `right` are `left`: rounding of a deep network is a tenth of what is allowed."""
    right = right[: len(left)]
    return alike(left, right) and (left.dtype != torch.float32 or agree(left.unsqueeze(0), right.unsqueeze(0), _ROUNDING))


def _with_copies(module: nn.Module, records: Tensor) -> Tensor:
    """Return outputs by copies of the module's parameters, its own being moved, as code that holds them elsewhere shows."""
    values = {name: value.detach().clone() for name, value in module.named_parameters()}
    try:
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.requires_grad:
                    parameter.mul_(1.1).add_(0.1)
        return _run(module, records, values)
    finally:
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(values[name])


def _run(module: nn.Module, records: Tensor, values: dict[str, Tensor] | None = None) -> Tensor:
    buffers = {name: value.clone() for name, value in module.named_buffers()}
    with torch.no_grad(), seeded_stream(Seed(0)):
        outputs: Tensor = torch.func.functional_call(module, {**(values or {}), **buffers}, (records.clone(),))
    return outputs
