"""Outputs of one model that somebody else trained, batch by batch, with the checks that every way of reading one shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.engine.device import find_device

BATCH_SIZE = 256


def batched_logits(
    call: Callable[[torch.Tensor], Any],
    inputs: Array,
    *,
    batch_size: int = BATCH_SIZE,
    device: str = "cpu",
    fixed: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Array:
    """What `call` gives for `inputs`, `(n, classes)` float32.

    Args:
        call: the model: a batch in, a batch of outputs out.
        inputs: `(n, ...)`.
        fixed: the model takes batches of exactly `batch_size`; the last one is filled up with copies of its last record.
        dtype: what the model takes.

    Raises:
        DataError: the model refuses the inputs, or its outputs are not `(n, classes)` numbers.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}; expected at least 1")
    place = find_device(device)
    found = []
    for start in range(0, len(inputs), batch_size):
        piece = torch.from_numpy(np.array(inputs[start : start + batch_size])).to(place, dtype)
        rows = len(piece)
        if fixed and rows < batch_size:
            piece = torch.cat([piece, piece[-1:].expand(batch_size - rows, *piece.shape[1:])])
        with torch.inference_mode():
            found.append(_outputs(_called(call, piece), len(piece))[:rows])
    return np.concatenate(found) if found else np.empty((0, 0), np.float32)


def _called(call: Callable[[torch.Tensor], Any], piece: torch.Tensor) -> Any:
    try:
        return call(piece)
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DataError(
            f"the model cannot be run on a batch of shape {tuple(piece.shape)}: {reason}; "
            "expected records exactly as the model takes them, (n, ...), already scaled"
        ) from error


def _outputs(found: Any, rows: int) -> Array:
    if isinstance(found, tuple | list) and len(found) == 1:
        found = found[0]
    if isinstance(found, dict) and "logits" in found:
        found = found["logits"]
    if not isinstance(found, torch.Tensor):
        raise DataError(f"the model returns {type(found).__name__}; expected one tensor of logits, (n, classes)")
    if found.ndim != 2 or len(found) != rows or found.shape[1] < 2 or not found.is_floating_point():
        raise DataError(
            f"the model gives {found.dtype} of shape {tuple(found.shape)} for {rows} records; expected logits of shape "
            f"({rows}, classes) with at least two classes. A model with one output z per record can be wrapped to "
            "give (0, z); for regression audit a predictions file with losses"
        )
    return found.float().cpu().numpy()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModuleTarget:
    """A `torch.nn.Module` in memory, queried in evaluation mode and left in the mode it was in."""

    module: nn.Module
    batch_size: int = BATCH_SIZE
    device: str = "cpu"

    def logits(self, inputs: Array) -> Array:
        """Outputs for `inputs` `(n, ...)`, `(n, classes)` float32."""
        modes = [(layer, layer.training) for layer in self.module.modules()]
        dtype = next((p.dtype for p in self.module.parameters() if p.is_floating_point()), torch.float32)
        self.module.to(find_device(self.device)).eval()
        try:
            return batched_logits(self.module, inputs, batch_size=self.batch_size, device=self.device, dtype=dtype)
        finally:
            for layer, mode in modes:
                layer.training = mode
