"""The local steps of clients as one call to compiled code, if that covers their model."""

import ctypes
from typing import Any

import torch
from torch import Tensor, nn

from audit.engine.compiled.compiled_cnn import Architecture
from audit.engine.compiled.compiled_gradients import check_records, choose, compilable, load
from audit.engine.record_rows import RecordRows

_WHOLE, _MEMORY = ctypes.c_int64, ctypes.c_void_p
_ARGUMENTS: tuple[Any, ...] = (_MEMORY, _WHOLE, *[_MEMORY] * 5, _WHOLE, _WHOLE, ctypes.c_float, _MEMORY)


class ClientSteps:
    """Gradient steps of many models in float32 on a CPU, each on its own rows and while it is in the cache.

    Inputs and labels are read in place, without a copy; raises as `check_records`.
    """

    def __init__(self, architecture: Architecture, cdll: ctypes.CDLL, records: tuple[Tensor, Tensor]) -> None:
        self.inputs, self.labels = (part.contiguous() for part in records)
        check_records(self.inputs, self.labels, architecture.sizes)
        self._struct, self._steps, floats = load(architecture, cdll, "steps", _ARGUMENTS)
        self._struct.chain.classes = int(self.labels.dtype == torch.int64)
        self._width = int(self._struct.chain.width)
        self._work = torch.zeros(floats + self._width)

    def descend(self, flat: Tensor, rows: Tensor, real: Tensor, rate: float) -> None:
        """Move contiguous models `(k, width)` along the mean gradients of records `rows` `(k, steps, rows)`, in place.

        `real` says which of those are not padding; a step without any moves nothing.
        """
        if flat.shape[1:] != (self._width,) or not flat.is_contiguous() or rows.shape != real.shape or len(rows) != len(flat):
            raise ValueError(f"models {tuple(flat.shape)}, rows {tuple(rows.shape)}, mask {tuple(real.shape)} do not fit")
        rows, real = rows.contiguous(), real.contiguous()
        tensors = (flat, self.inputs, self.labels, rows, real)
        pointers = (tensor.data_ptr() for tensor in tensors)
        self._steps(ctypes.addressof(self._struct), len(flat), *pointers, *rows.shape[1:], rate, self._work.data_ptr())


def client_steps(
    module: nn.Module, records: tuple[Tensor | RecordRows, Tensor], setting: str, examples: float
) -> ClientSteps | None:
    """Return compiled steps of clients that train `module` on `records` of all; None for those of torch.

    Setting and reasons are as for `choose`; `examples` are passes over one record that the federation comes to in expectation.
    """
    if setting == "off":
        return None
    inputs, labels = records
    architecture = compilable(module, tuple(inputs.shape[1:]))
    reasons = {
        "the device is not a CPU": inputs.device.type != "cpu",
        "records are read where they lie": isinstance(inputs, RecordRows),
        "records are not float32": isinstance(inputs, Tensor) and inputs.dtype != torch.float32,
        "there are several labels a record": labels.dim() != 1 or labels.dtype == torch.bool,
    }
    code = choose(architecture, setting, reasons, examples)
    if code is None or architecture is None or isinstance(inputs, RecordRows):
        return None
    return ClientSteps(architecture, code, (inputs, labels))
