"""The local steps of clients whose model is a chain of linear layers, as one call to compiled code."""

from __future__ import annotations

import ctypes
import logging
from typing import Any

import torch
from torch import Tensor, nn

from audit.engine.compile_c import library
from audit.engine.compiled_gradients import check_records, worth_compiling
from audit.engine.compiled_mlp import SOURCE, Chain, ChainStruct, chain_of, workspace
from audit.engine.record_rows import RecordRows

log = logging.getLogger(__name__)

_WHOLE, _MEMORY = ctypes.c_int64, ctypes.c_void_p
_ARGUMENTS: tuple[Any, ...] = (ctypes.POINTER(ChainStruct), _WHOLE, *[_MEMORY] * 5, _WHOLE, _WHOLE, ctypes.c_float, _MEMORY)


class ClientSteps:
    """Gradient steps of many models in float32 on a CPU, each on rows of its own and while it is in the cache.

    Args:
        chain: the model.
        cdll: compiled code.
        records: inputs and labels, read where they lie.

    Raises:
        DataError: records of another size or type than the chain's, or labels that it has no output for.
    """

    def __init__(self, chain: Chain, cdll: ctypes.CDLL, records: tuple[Tensor, Tensor]) -> None:
        self.inputs, self.labels = (part.contiguous() for part in records)
        check_records(self.inputs, self.labels, chain.sizes)
        self._struct = ChainStruct.of(chain)
        self._struct.classes = int(self.labels.dtype == torch.int64)
        self._width = chain.width
        self._steps = cdll.chain_steps
        self._steps.restype, self._steps.argtypes = None, _ARGUMENTS
        self._work = torch.zeros(workspace(self._struct, cdll) + chain.width)

    def descend(self, flat: Tensor, rows: Tensor, real: Tensor, rate: float) -> None:
        """Move models along the mean gradients of their rows, in place.

        Args:
            flat: `(k, width)` contiguous models.
            rows: `(k, steps, rows)` numbers of records.
            real: which of those are not padding; a step without any moves nothing.
            rate: learning rate.
        """
        if flat.shape[1:] != (self._width,) or not flat.is_contiguous() or rows.shape != real.shape or len(rows) != len(flat):
            raise ValueError(f"models {tuple(flat.shape)}, rows {tuple(rows.shape)}, mask {tuple(real.shape)} do not fit")
        rows, real = rows.contiguous(), real.contiguous()
        tensors = (flat, self.inputs, self.labels, rows, real)
        pointers = (tensor.data_ptr() for tensor in tensors)
        self._steps(ctypes.byref(self._struct), len(flat), *pointers, *rows.shape[1:], rate, self._work.data_ptr())


def client_steps(
    module: nn.Module, records: tuple[Tensor | RecordRows, Tensor], setting: str, examples: float
) -> ClientSteps | None:
    """Return compiled steps of clients that train `module`; None for those of torch.

    Args:
        module: one model.
        records: inputs and labels of all clients.
        setting: "off", "on", or "auto" where `examples` repay compiling; what speaks against "on" is logged.
        examples: passes over one record that the federation comes to in expectation.
    """
    if setting == "off":
        return None
    inputs, labels = records
    chain = chain_of(module)
    reasons = {
        "the model is not a chain of linear layers with ReLU or Tanh": chain is None,
        "the device is not a CPU": inputs.device.type != "cpu",
        "records are read where they lie": isinstance(inputs, RecordRows),
        "records are not float32": isinstance(inputs, Tensor) and inputs.dtype != torch.float32,
        "there are several labels a record": labels.dim() != 1 or labels.dtype == torch.bool,
    }
    against = [reason for reason, holds in reasons.items() if holds]
    if against or chain is None or isinstance(inputs, RecordRows):
        if setting == "on":
            log.warning("compile: on has no effect: %s", "; ".join(against))
        return None
    if setting == "auto" and not worth_compiling(chain, examples):
        return None
    code = library(SOURCE)
    return None if code is None else ClientSteps(chain, code, (inputs, labels))
