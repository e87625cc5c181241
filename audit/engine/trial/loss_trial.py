"""A user's loss on trial before training: one number a record, which the other records of the batch leave alone."""

from collections.abc import Iterator

import torch
from torch import Tensor

from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.seeds import Seed
from audit.engine.gradients.trials import CODE_ERRORS, error_location
from audit.engine.losses import OwnLoss, RecordLoss
from audit.engine.trial.mixing import alike, other_batches
from audit.models.build import seeded_stream

_ALONE = 4
_MOVES, _INTERVAL = 40, 5  # of outputs towards small losses and towards large ones, and after how many the loss is tried again
_FIRST_MOVE, _GROWTH = 0.1, 1.25


def examine_loss(loss: RecordLoss, outputs: Tensor, labels: Tensor) -> None:
    """Try a loss out on outputs `(n, ...)` of a model and the labels of the same records.

    `ConfigError` if it fails, gives no number a record, draws or cannot be differentiated; `UnsupportedMechanism` if a
    record's loss was seen to change with the others of the batch: at these outputs, or on the way to those of a model that fits
    or misses the labels.
    """
    if not isinstance(loss, OwnLoss):
        if labels.dtype == torch.bool and outputs.shape != labels.shape:
            raise ConfigError(
                f"the model returns {tuple(outputs.shape)} for labels of shape {tuple(labels.shape)}; expected a logit for "
                "each label"
            )
        return
    # in double precision, where a small effect of other records is above rounding
    leaf = outputs.detach().double().requires_grad_() if outputs.is_floating_point() else outputs
    full = _plain_values(loss, leaf, labels)
    rows = len(outputs)
    if not isinstance(full, Tensor) or full.shape != (rows,) or not full.is_floating_point():
        shape = f"{full.dtype} of shape {tuple(full.shape)}" if isinstance(full, Tensor) else type(full).__name__
        raise ConfigError(
            f"loss '{loss.name}' returns {shape} for {rows} records; expected one real number a record, ({rows},): leave out "
            "any mean over the batch (reduction='none'), and add up what belongs to one record"
        )
    if not full.requires_grad:
        raise ConfigError(f"loss '{loss.name}' does not depend on the model's outputs in a way that torch can differentiate")
    if not alike(_plain_values(loss, leaf, labels), full):
        raise ConfigError(f"loss '{loss.name}' gives other numbers when it is called again; results could not be repeated")
    _refuse_coupling(loss, leaf.detach(), labels, full.detach())
    for sign in (1.0, -1.0):
        for candidate in _trial_outputs(loss, outputs.detach(), labels, sign):
            _refuse_coupling(loss, candidate, labels, _plain_values(loss, candidate, labels).detach())


def _trial_outputs(loss: OwnLoss, outputs: Tensor, labels: Tensor, sign: float) -> Iterator[Tensor]:
    """Yield outputs on the way to smaller losses of all records (`sign` 1) or larger ones (-1): moves by the sign of the slope.

    A record with a loss that does not follow, or is not finite, takes its move back and tries a shorter one. Slopes are taken
    in the precision of the training, because backward passes may refuse labels of another, losses in double precision.
    """
    precision, outputs = outputs.dtype, outputs.double()
    lengths = torch.full((len(outputs),) + (1,) * (outputs.dim() - 1), _FIRST_MOVE, dtype=outputs.dtype)
    values = _plain_values(loss, outputs, labels).detach()
    for move in range(1, _MOVES + 1):
        with seeded_stream(Seed(0)):
            slopes = loss.slopes(outputs.to(precision), labels)
        candidates = outputs - sign * lengths * slopes.sign()
        trial = _trial_values(loss, candidates, labels)
        better = (
            torch.zeros_like(values, dtype=torch.bool) if trial is None else (sign * (values - trial) > 0) & trial.isfinite()
        )
        rows = better.view_as(lengths)
        outputs = torch.where(rows, candidates, outputs)
        values = values if trial is None else torch.where(better, trial, values)
        lengths = torch.where(rows, lengths * _GROWTH, lengths / 2)
        if move % _INTERVAL == 0:
            yield outputs


def _trial_values(loss: OwnLoss, outputs: Tensor, labels: Tensor) -> Tensor | None:
    """Return a loss at outputs that no model gave; None if it refuses them (a chance above 1, say), as it may."""
    try:
        with seeded_stream(Seed(0)):
            return loss.function(outputs, labels).detach()
    except CODE_ERRORS:
        return None


def _refuse_coupling(loss: OwnLoss, outputs: Tensor, labels: Tensor, whole: Tensor) -> None:
    for words, parts in other_batches(len(outputs), _ALONE):
        values = torch.cat([_plain_values(loss, outputs[part], labels[part]).reshape(-1) for part in parts])
        if not alike(values, whole[torch.cat(parts)]):
            raise UnsupportedMechanism(
                f"loss '{loss.name}': a record's loss changes with the other records of the batch ({words} gives other "
                "numbers), as in contrastive losses and those that are averaged over a batch. No record has a gradient of its "
                "own then, so nothing bounds what one record adds; train such models by trainer user_function, with the "
                "claim declared"
            )


def _plain_values(loss: OwnLoss, outputs: Tensor, labels: Tensor) -> Tensor:
    try:
        with seeded_stream(Seed(0)):
            return loss.function(outputs, labels)
    except CODE_ERRORS as error:
        reason = str(error).strip().partition("\n")[0] or "no reason given"
        raise ConfigError(
            f"loss '{loss.name}' fails on outputs of shape {tuple(outputs.shape)} and labels of shape {tuple(labels.shape)}, "
            f"{str(labels.dtype).removeprefix('torch.')}: {type(error).__name__}: {reason} (in {error_location(error)})"
        ) from error
