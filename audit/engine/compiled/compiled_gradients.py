"""What compiled code covers: the whole sum of a chunk's step in one call, and the local steps of clients."""

import ctypes
import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from audit.core.errors import DataError
from audit.engine.compile_c import COMPILERS, compiler, library
from audit.engine.compiled.compiled_cnn import Architecture, find_network
from audit.engine.compiled.compiled_mlp import find_chain
from audit.engine.gradients.clipping import Clip, Clipping, Rows, all_finite, stacked_state
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.record_rows import RecordRows
from audit.engine.trial.module_parts import refuse_no_shape

log = logging.getLogger(__name__)

COMPILE = ("off", "auto", "on")
COVERED = "a chain of linear layers with ReLU or Tanh between, or one behind convolutions, GroupNorm, ReLU, Tanh and pooling"
# operations of one model that repay compiling (one to three seconds) if some fifteen models are trained
_WORTH_COMPILING = 2e9
# of the size of a sum, between compiled code and torch: a unit at its kink moves a sum of some records by less
ROUNDING = 1e-2
_WHOLE, _MEMORY = ctypes.c_int64, ctypes.c_void_p
# of the functions that add sums, and that take steps of clients
_SUMS: tuple[Any, ...] = (_MEMORY, _WHOLE, *[_MEMORY] * 6, _WHOLE, _MEMORY, _WHOLE, *[_MEMORY] * 3)
_STEPS: tuple[Any, ...] = (_MEMORY, _WHOLE, *[_MEMORY] * 5, _WHOLE, _WHOLE, ctypes.c_float, _MEMORY)


def compilable(module: nn.Module, shape: tuple[int, ...]) -> Architecture | None:
    """Return what compiled code takes `module` for, with records of `shape`; None if it does not cover it.

    Call it before threads train, as for `straight_line`; raises as `refuse_no_shape`.
    """
    refuse_no_shape(module)
    return find_chain(module) or find_network(module, shape)


def choose(architecture: Architecture | None, setting: str, reasons: Mapping[str, bool], examples: float) -> ctypes.CDLL | None:
    """Return the compiled code for models of this architecture; None if torch computes them, and why is logged.

    Of `COMPILE`, "on" warns of what speaks against it (`reasons`, and whether they hold), "auto" leaves a training that is too
    short to torch: each model is trained on so many `examples`.
    """
    if setting == "off":
        return None
    own_reasons = {
        f"the model is not {COVERED}": architecture is None,
        f"no C compiler was found (looked for {', '.join(COMPILERS)})": compiler() is None,
    }
    against = [reason for reason, holds in {**own_reasons, **reasons}.items() if holds]
    if architecture is None or against:
        level = logging.WARNING if setting == "on" else logging.INFO
        log.log(level, "compile: %s has no effect: %s", setting, "; ".join(against))
        return None
    if setting == "auto" and not worth_compiling(architecture, examples):
        log.info("compile: auto leaves all to torch: the training is too short to repay the compiler")
        return None
    return library(architecture.source)


def load(architecture: Architecture, cdll: ctypes.CDLL, name: str, arguments: tuple[Any, ...]) -> tuple[Any, Any, int]:
    """Return an architecture as compiled code reads it, its function of that name, and the floats needed beside the models."""
    struct, function = architecture.struct(), cdll[f"{architecture.prefix}_{name}"]
    function.restype, function.argtypes = None, arguments
    workspace = cdll[f"{architecture.prefix}_workspace"]
    workspace.restype = _WHOLE
    return struct, function, int(workspace(ctypes.byref(struct)))


def distance_from_torch(
    architecture: Architecture, module: nn.Module, records: tuple[Tensor, Tensor], clip: Clip | None
) -> float:
    """Return how far compiled code's sum over some records is from torch's, in units of the latter's norm."""
    inputs, labels = records
    state = stacked_state([module], torch.float32, inputs.device)
    rows = Rows(inputs=inputs, labels=labels, mask=torch.ones(1, len(labels), dtype=torch.bool))
    code = compiled_gradients(architecture, module, state)
    if code is None:
        return 0.0
    sums = []
    for models in (code, TapeGradients(module, state)):
        sums.append(torch.zeros_like(models.flat))
        models.add_sum(rows, clip, sums[-1])
    return float((sums[0] - sums[1]).norm() / sums[1].norm().clamp_min(1e-30))


def worth_compiling(architecture: Architecture, examples: float) -> bool:
    """True if a training of each model on `examples` in all repays the time that a compiler takes.

    Models of one job are not counted: how an audit is cut into jobs must not change a bit of it.
    """
    return examples * architecture.operations > _WORTH_COMPILING


class CompiledGradients(TapeGradients):
    """N models in float32 on a CPU. Forward passes without gradients are those of `TapeGradients`.

    Rows of padding cost nothing, batches are read from the records in place, and models share no arithmetic.
    """

    def __init__(self, module: nn.Module, state: Mapping[str, Tensor], architecture: Architecture, cdll: ctypes.CDLL) -> None:
        super().__init__(module, state)
        self._sizes = architecture.sizes
        self._struct, self._sums, floats = load(architecture, cdll, "sums", _SUMS)
        self._work = torch.zeros(floats)
        self._valid_labels: Tensor | None = None

    def add_sum(self, rows: Rows, clip: Clip | None, total: Tensor) -> Clipping | None:
        if rows.copies != 1:
            return super().add_sum(rows, clip, total)
        return self.add_rows((rows.inputs, rows.labels), torch.arange(len(rows.labels)), rows.mask, (clip, total))

    def add_rows(
        self, data: tuple[Tensor, Tensor], indices: Tensor, mask: Tensor, into: tuple[Clip | None, Tensor]
    ) -> Clipping | None:
        """`add_sum` for those records of `data` (inputs and labels) with the numbers `indices` `(N * rows,)`, read in place.

        `mask` `(N, rows)` says which are real, `into` how to clip, and the flat `(N, width)` sum; raises as `check_records`.
        """
        (inputs, labels), (clip, total) = data, into
        if labels is not self._valid_labels:  # once for each tensor of labels
            check_records(inputs, labels, self._sizes)
            self._valid_labels = labels
        inputs, labels, indices, mask = (value.contiguous() for value in (inputs, labels, indices, mask))
        norms, clipped_norms = torch.empty(2, *mask.shape)
        bounds = None
        if clip is not None:
            bounds = clip.norm.flatten() if isinstance(clip.norm, Tensor) else torch.full((self.models,), float(clip.norm))
        self._struct.chain.classes = int(labels.dtype == torch.int64)
        before, after = (self.flat, total, inputs, labels, indices, mask), (norms, clipped_norms, self._work)
        self._sums(
            ctypes.addressof(self._struct),
            self.models,
            *(tensor.data_ptr() for tensor in before),
            mask.shape[1],
            None if bounds is None else bounds.data_ptr(),
            clip is not None and clip.per_layer,
            *(tensor.data_ptr() for tensor in after),
        )
        return None if clip is None else Clipping(norms=norms, left=clipped_norms, finite=all_finite(norms))


def check_records(inputs: Tensor, labels: Tensor, sizes: tuple[int, ...]) -> None:
    """Raise `DataError` for records of another size or type than the model's, or labels that it has no output for."""
    size = inputs[:1].numel() if len(inputs) else sizes[0]
    if inputs.dtype != torch.float32 or size != sizes[0]:
        raise DataError(f"records of {size} {inputs.dtype} each; expected {sizes[0]} torch.float32 for this model")
    if labels.dtype == torch.int64 and len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < sizes[-1]:
        raise DataError(f"labels up to {int(labels.max())}; expected 0 to {sizes[-1] - 1}, the outputs of the model")


def compiled_gradients(architecture: Architecture, module: nn.Module, state: Mapping[str, Tensor]) -> CompiledGradients | None:
    """N models with the architecture of `module` by compiled code; None if that cannot be had."""
    first = next(iter(state.values()))
    if first.device.type != "cpu" or first.dtype != torch.float32:
        return None
    code = library(architecture.source)
    return None if code is None else CompiledGradients(module, state, architecture, code)


class ClientSteps:
    """Gradient steps of many models in float32 on a CPU, each on its own rows and while it is in the cache.

    Inputs and labels are read in place, without a copy; raises as `check_records`.
    """

    def __init__(self, architecture: Architecture, cdll: ctypes.CDLL, records: tuple[Tensor, Tensor]) -> None:
        self.inputs, self.labels = (part.contiguous() for part in records)
        check_records(self.inputs, self.labels, architecture.sizes)
        self._struct, self._steps, floats = load(architecture, cdll, "steps", _STEPS)
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
