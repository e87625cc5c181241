"""What a model is trained to make small: one number a record, the usual one for its labels or a user's own function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from audit import plugins
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.record_arrays import RecordArray

_SHORT_ROW = 32


@dataclass(frozen=True, slots=True)
class UsualLoss:
    """Decided by the labels: cross-entropy of classes (int64), binary cross-entropy added up over several yes or no labels
    (bool, `(rows, labels)`), squared error added up over numbers."""

    def values(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """`(rows,)` losses, differentiable in `outputs`."""
        if labels.dtype == torch.int64:
            return F.cross_entropy(outputs, labels, reduction="none")
        if labels.dtype == torch.bool:
            return F.binary_cross_entropy_with_logits(outputs, labels.to(outputs.dtype), reduction="none").sum(1)
        squares = (outputs.reshape(labels.shape) - labels).square()
        return squares.flatten(1).sum(1) if labels.dim() > 1 else squares

    def slopes(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Derivative of each record's loss by its own outputs, in the shape of `outputs`, without a graph.

        In few passes over memory: library softmax kernels are slow on very short rows, which is what ten classes are.
        """
        if labels.dtype == torch.bool:
            return torch.sigmoid(outputs).sub_(labels.to(outputs.dtype))
        if labels.dtype != torch.int64:
            return (outputs.reshape(labels.shape) - labels).mul_(2.0).reshape(outputs.shape)
        if outputs.shape[1] <= _SHORT_ROW:
            slopes = (outputs - outputs.amax(1, keepdim=True)).exp_()
            slopes /= slopes.sum(1, keepdim=True)
        else:
            slopes = torch.softmax(outputs, 1)
        slope = torch.full((1, 1), -1.0, dtype=slopes.dtype, device=slopes.device)
        return slopes.scatter_add_(1, labels.unsqueeze(1), slope.expand(len(labels), 1))


@dataclass(frozen=True, slots=True)
class OwnLoss:
    """A user's `function(outputs, labels)`, `(rows,)` of a whole batch; named "package.module:function"."""

    name: str
    function: Callable[[Tensor, Tensor], Tensor]

    def values(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return self.function(outputs, labels)

    def slopes(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """By autograd from the outputs: a loss that does not mix records has in its sum the slope of each."""
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            total = self.function(leaf, labels).sum()
            return torch.autograd.grad(total, leaf)[0] if total.requires_grad else torch.zeros_like(outputs)


RecordLoss = UsualLoss | OwnLoss
USUAL: RecordLoss = UsualLoss()
USERS_LOSS = "audit.engine.losses:cross_entropy_per_user"


def cross_entropy_per_user(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy of each user's records, `(users,)`: its gradient is what user-level DP-SGD clips.

    Outputs are `(users, records * classes)`; labels `(users, records)` classes as real numbers, below 0 if a user has no
    further record.
    """
    present = labels >= 0
    log_shares = outputs.unflatten(1, (labels.shape[1], -1)).log_softmax(2)
    # -1 is no index: places without a record are read anywhere, and left out of the mean
    losses = -log_shares.gather(2, labels.clamp(min=0).long().unsqueeze(2)).squeeze(2)
    means: Tensor = (losses * present).sum(1) / present.sum(1)
    return means


def find_loss(name: str) -> RecordLoss:
    """Return the loss that a job names: "" for the usual one, or "package.module:function"; `ConfigError` if there is none."""
    if not name:
        return USUAL
    if name.count(":") != 1:
        raise ConfigError(f"training.loss is '{name}'; expected 'package.module:function'")
    function = plugins.foreign(name, "training.loss")
    if not callable(function):
        raise ConfigError(f"training.loss '{name}' is {type(function).__name__}; expected a function(outputs, labels)")
    return OwnLoss(name, function)


def input_tensor(inputs: Any, dtype: torch.dtype) -> Tensor:
    """Records as a model takes them: whole numbers (categories, tokens) as int64, all others as `dtype`."""
    # a copy, as torch shares memory and must not write into an array that is read only
    values = torch.from_numpy(np.asarray(inputs) if isinstance(inputs, RecordArray) else np.array(inputs))
    return values.to(dtype) if values.is_floating_point() else values.long()


def label_tensor(labels: Array, dtype: torch.dtype) -> Tensor:
    """Labels as a loss takes them: classes as int64, yes or no as bool, numbers as `dtype`."""
    values = np.array(labels)
    if values.dtype.kind == "b":
        return torch.from_numpy(values)
    if values.dtype.kind in "iu":
        return torch.from_numpy(values.astype(np.int64))
    return torch.from_numpy(values.astype(np.float64)).to(dtype)
