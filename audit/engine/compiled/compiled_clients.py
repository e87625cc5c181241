"""The local steps of clients as one call to compiled code, if that covers their model."""

import ctypes
from typing import Any

import torch
from torch import Tensor, nn

from audit.engine.compiled.compiled_cnn import Network
from audit.engine.compiled.compiled_gradients import check_records, choose, compilable
from audit.engine.compiled.compiled_mlp import Chain
from audit.engine.record_rows import RecordRows

_WHOLE, _MEMORY = ctypes.c_int64, ctypes.c_void_p
_ARGUMENTS: tuple[Any, ...] = (_MEMORY, _WHOLE, *[_MEMORY] * 5, _WHOLE, _WHOLE, ctypes.c_float, _MEMORY)


class ClientSteps:
    """Gradient steps of many models in float32 on a CPU, each on its own rows and while it is in the cache.

    Args:
        architecture: of the model.
        cdll: compiled code.
        records: inputs and labels, read in place, without a copy.

    Raises:
        DataError: records of another size or type than the model's, or labels that it has no output for.
    """

    def __init__(self, architecture: Chain | Network, cdll: ctypes.CDLL, records: tuple[Tensor, Tensor]) -> None:
        self.inputs, self.labels = (part.contiguous() for part in records)
        check_records(self.inputs, self.labels, architecture.sizes)
        self._struct = architecture.struct()
        self._struct.chain.classes = int(self.labels.dtype == torch.int64)
        self._width = int(self._struct.chain.width)
        self._steps = cdll[f"{architecture.prefix}_steps"]
        self._steps.restype, self._steps.argtypes = None, _ARGUMENTS
        self._work = torch.zeros(self._struct.floats(cdll) + self._width)

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
        self._steps(ctypes.addressof(self._struct), len(flat), *pointers, *rows.shape[1:], rate, self._work.data_ptr())


def client_steps(
    module: nn.Module, records: tuple[Tensor | RecordRows, Tensor], setting: str, examples: float
) -> ClientSteps | None:
    """Return compiled steps of clients that train `module`; None for those of torch.

    Args:
        module: one model.
        records: inputs and labels of all clients.
        setting: "off", "on", or "auto" if `examples` repay compiling; what speaks against "on" is logged.
        examples: passes over one record that the federation comes to in expectation.
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
