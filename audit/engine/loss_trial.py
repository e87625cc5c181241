"""A user's loss on trial before training: one number a record, which the other records of the batch leave alone."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.seeds import Seed
from audit.engine.losses import OwnLoss, RecordLoss
from audit.engine.mixing import alike
from audit.engine.trials import CODE_ERRORS, location_of
from audit.models.build import seeded_stream

_ALONE = 4


def examine_loss(loss: RecordLoss, outputs: Tensor, labels: Tensor) -> None:
    """Try a loss out on `outputs` `(n, ...)` of a model and the labels of the same records.

    Raises:
        ConfigError: it fails, gives no number a record, draws random numbers or cannot be differentiated.
        UnsupportedMechanism: a record's loss changes with the other records of the batch.
    """
    if not isinstance(loss, OwnLoss):
        if labels.dtype == torch.bool and outputs.shape != labels.shape:
            raise ConfigError(
                f"the model returns {tuple(outputs.shape)} for labels of shape {tuple(labels.shape)}; expected a logit for "
                "each label"
            )
        return
    leaf = outputs.detach().double().requires_grad_() if outputs.is_floating_point() else outputs
    whole = _values_of(loss, leaf, labels)
    rows = len(outputs)
    if not isinstance(whole, Tensor) or whole.shape != (rows,) or not whole.is_floating_point():
        shape = f"{whole.dtype} of shape {tuple(whole.shape)}" if isinstance(whole, Tensor) else type(whole).__name__
        raise ConfigError(
            f"loss '{loss.name}' returns {shape} for {rows} records; expected one real number a record, ({rows},): leave out "
            "any mean over the batch (reduction='none'), and add up what belongs to one record"
        )
    if not whole.requires_grad:
        raise ConfigError(f"loss '{loss.name}' does not depend on the model's outputs in a way that torch can differentiate")
    if not alike(_values_of(loss, leaf, labels), whole):
        raise ConfigError(f"loss '{loss.name}' gives other numbers when it is called again; results could not be repeated")
    _refuse_coupling(loss, leaf.detach(), labels, whole.detach())


def _refuse_coupling(loss: OwnLoss, outputs: Tensor, labels: Tensor, whole: Tensor) -> None:
    order = torch.randperm(len(outputs), generator=torch.Generator().manual_seed(0))
    half = len(outputs) // 2
    trials: dict[str, tuple[list[Tensor], Tensor]] = {
        "the batch in another order": ([order], whole[order]),
        "half the batch": ([torch.arange(half), torch.arange(half, len(outputs))], whole),
        "a record alone": ([torch.tensor([row]) for row in range(min(_ALONE, len(outputs)))], whole[:_ALONE]),
    }
    for words, (parts, reference) in trials.items():
        values = torch.cat([_values_of(loss, outputs[part], labels[part]).reshape(-1) for part in parts])
        if not alike(values, reference):
            raise UnsupportedMechanism(
                f"loss '{loss.name}': a record's loss changes with the other records of the batch ({words} gives other "
                "numbers), as in contrastive losses and those that are averaged over a batch. No record has a gradient of its "
                "own then, so nothing bounds what one record adds; train such models by trainer user_function, with the "
                "claim declared"
            )


def _values_of(loss: OwnLoss, outputs: Tensor, labels: Tensor) -> Tensor:
    try:
        with seeded_stream(Seed(0)):
            return loss.function(outputs, labels)
    except CODE_ERRORS as error:
        reason = str(error).strip().partition("\n")[0] or "no reason given"
        raise ConfigError(
            f"loss '{loss.name}' fails on outputs of shape {tuple(outputs.shape)} and labels of shape {tuple(labels.shape)}, "
            f"{str(labels.dtype).removeprefix('torch.')}: {type(error).__name__}: {reason} (in {location_of(error)})"
        ) from error
