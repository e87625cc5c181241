"""A short trial that most models pass: the bits of a whole batch in single precision, and some records in double precision.

Kernels give a record of a batch the same bits whatever the other records are, so where half of a batch was replaced the rest
must not change by a bit: less escapes than in double precision, at a fifth of the time of a convolution. What changes with the
size of the batch, or the places of its records, a few records show. A model that stands out has done nothing wrong yet; the
long trial decides, and says what it is.
"""

import torch
from torch import Tensor, nn

from audit.core.seeds import Seed
from audit.engine.gradients.trials import CODE_ERRORS, same_values, without_dropout
from audit.engine.layers.modes import Modes
from audit.engine.random.random_operations import ConstantDraws
from audit.engine.trial.foreign_streams import foreign_streams
from audit.engine.trial.mixing import alike, mixes
from audit.models.build import seeded_stream

_SHORT_BATCH = 5  # records, and two and three of them, and one


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
    order = torch.randperm(len(records), generator=torch.Generator().manual_seed(0))
    kept_rows, other_rows = order.tensor_split([-(-len(records) // 2)])
    replaced_records = records.clone()
    replaced_records[other_rows] = records[kept_rows[: len(other_rows)]]
    plain_module, modes = without_dropout(module), Modes(module)
    if plain_module is module:
        with ConstantDraws() as draws:
            second_outputs = outputs_without_draws = _with_copies(module, replaced_records)
        few_outputs = _run(module, records[:_SHORT_BATCH])
    else:
        second_outputs, few_outputs = _with_copies(module, replaced_records), outputs
        with ConstantDraws() as draws:
            outputs_without_draws = _run(plain_module, replaced_records)
    if draws.random_operations or not same_values(second_outputs[kept_rows], outputs[kept_rows]):
        return True
    modes.evaluate()
    try:
        with foreign_streams() as streams_moved:
            evaluation = _run(module, records)
            names = streams_moved()
        few_evaluations = _run(module, records[:_SHORT_BATCH])
    finally:
        modes.train()
    same_modes = same_values(evaluation[kept_rows], outputs_without_draws[kept_rows])
    pairs = ((few_outputs, outputs), (few_evaluations, evaluation))
    return bool(names) or not (same_modes and all(alike(left, right[: len(left)]) for left, right in pairs))


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
