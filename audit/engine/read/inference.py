"""Outputs of one model that a third party trained, batch by batch, with the checks that every way of reading one shares."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from audit.core import files
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.data import loaders
from audit.data.row_containers import describe
from audit.engine.device import find_device

BATCH_SIZE = 256
# what models raise on inputs that they cannot take
CALL_ERRORS = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AssertionError, MemoryError, torch.jit.Error)


def batched_logits(
    call: Callable[[torch.Tensor], Any],
    inputs: Array,
    *,
    batch_size: int = BATCH_SIZE,
    device: str = "cpu",
    fixed_dtype: bool = False,
    dtype: torch.dtype | None = None,
) -> Array:
    """Return what the model `call`, a batch in, a batch of outputs out, gives for `inputs` `(n, ...)`: `(n, classes)` float32.

    With `fixed_dtype` it takes batches of exactly `batch_size`; the last one is filled up with copies of its last record.
    Without a `dtype`, whole numbers are int64 (tokens, categories) if the model takes those, and float32 otherwise. `DataError`
    if the model refuses the inputs, or its outputs are not `(n, classes)` numbers.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}; expected at least 1")
    place = find_device(device)
    if dtype is None:
        dtype = (
            _accepted_type(call, inputs[:batch_size], place)
            if inputs.dtype.kind in "biu" and not fixed_dtype
            else torch.float32
        )
    parts = []
    for start in range(0, len(inputs), batch_size):
        piece = _batch(inputs[start : start + batch_size], place, dtype)
        rows = len(piece)
        if fixed_dtype and rows < batch_size:
            _refuse_large_batch(piece, batch_size)
            piece = torch.cat([piece, piece[-1:].expand(batch_size - rows, *piece.shape[1:])])
        parts.append(_outputs(_call(call, piece), len(piece))[:rows])
    return np.concatenate(parts) if parts else np.empty((0, 0), np.float32)


def read_logits(outputs: Any) -> torch.Tensor:
    """The tensor of logits in what a model returned: itself, alone in a tuple, or under the name `logits`; else `DataError`."""
    if isinstance(outputs, tuple | list) and len(outputs) == 1:
        outputs = outputs[0]
    if isinstance(outputs, dict) and "logits" in outputs:
        outputs = outputs["logits"]
    outputs = getattr(outputs, "logits", outputs)  # the outputs of Hugging Face's models
    if isinstance(outputs, dict) and len(outputs) == 1:
        (outputs,) = outputs.values()
    if not isinstance(outputs, torch.Tensor):
        key = repr(next(iter(outputs))) if isinstance(outputs, dict) and outputs else "0"
        parts = f" with {', '.join(map(repr, outputs))}" if isinstance(outputs, dict) else ""
        raise DataError(
            f"the model returns {type(outputs).__name__}{parts}; expected one tensor of logits, (n, classes), or an object "
            f"with .logits. Of several parts give the one that answers y, lambda x: model(torch.as_tensor(x))[{key}] "
            "(model.eval() first), or the loss of all: audit.check(loss_of=fn, members=..., nonmembers=...)"
        )
    if outputs.ndim not in range(1, 6) or not outputs.is_floating_point():
        raise DataError(
            f"the model gives {outputs.dtype} of shape {tuple(outputs.shape)}; expected real numbers of shape (n, classes), "
            "(n,) for one logit or number a record, (n, tokens, vocabulary) or (n, classes, height, width)"
        )
    return outputs


def _refuse_large_batch(piece: torch.Tensor, batch_size: int) -> None:
    """Raise `DataError` if a model asks for batches beyond the machine's memory."""
    size = piece[:1].nbytes * batch_size
    if 4 * size > files.machine():
        raise DataError(
            f"the model takes batches of exactly {batch_size:,} records, {files.text(size)}, too much for the "
            f"{files.text(files.machine())} of memory; export it for fewer, or for any number"
        )


def _batch(rows: Array, place: torch.device, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(np.array(rows)).to(place, dtype)


def _accepted_type(call: Callable[[torch.Tensor], Any], rows: Array, place: torch.device) -> torch.dtype:
    """The type in which the model takes whole numbers: int64, else float32; the error of the former if it takes neither."""
    try:
        _call(call, _batch(rows, place, torch.int64))
    except DataError as refusal:
        try:
            _call(call, _batch(rows, place, torch.float32))
        except DataError:
            raise refusal from None
        return torch.float32
    return torch.int64


def _call(call: Callable[[torch.Tensor], Any], piece: torch.Tensor) -> Any:
    with _answering(f"a batch of shape {tuple(piece.shape)}, {piece.dtype}", "(n, ...), already scaled"):
        return call(piece)


@contextmanager
def _answering(batch: str, form: str) -> Iterator[None]:
    """A scope in which a model is asked about a batch: what it raises there is a `DataError` with the form that it takes."""
    try:
        with torch.inference_mode():
            yield
    except CALL_ERRORS as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DataError(
            f"the model cannot be run on {batch}: {reason}; expected records exactly as the model takes them, {form}"
        ) from error


def _outputs(outputs: Any, rows: int) -> Array:
    logits = read_logits(outputs)
    if len(logits) != rows:
        raise DataError(
            f"the model gives outputs of shape {tuple(logits.shape)} for {rows} records; expected ({rows}, classes)"
        )
    return logits.float().cpu().numpy()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModuleTarget:
    """A `torch.nn.Module` in memory, queried in evaluation mode and left in the mode it was in."""

    module: nn.Module
    batch_size: int = BATCH_SIZE
    device: str = "cpu"

    def logits(self, inputs: Array) -> Array:
        """Outputs for `inputs` `(n, ...)`, `(n, classes)` float32."""
        dtype = None if inputs.dtype.kind in "biu" else self._own_type
        with self._evaluate():
            return batched_logits(self.module, inputs, batch_size=self.batch_size, device=self.device, dtype=dtype)

    def logits_of_parts(self, batch: Any, call: Callable[[Any, Any], Any]) -> Array:
        """Outputs for one batch in a user's form: arrays, or a tuple or dictionary of them; `call(module, parts)` asks.

        `DataError` if a part is no array of numbers, or the module refuses them.
        """
        place = find_device(self.device)
        parts = _to_tensors(batch, place, self._own_type)
        form = "by position as (a, b), or by name as {'a': a, 'b': b}"
        form += "; the last part of members is y: leave out weights" * isinstance(parts, tuple)
        with self._evaluate(), _answering(describe(parts), form):
            outputs = call(self.module, parts)
        return read_logits(outputs).float().cpu().numpy()

    @property
    def _own_type(self) -> torch.dtype:
        return next((weight.dtype for weight in self.module.parameters() if weight.is_floating_point()), torch.float32)

    @contextmanager
    def _evaluate(self) -> Iterator[None]:
        """The module on its device and in evaluation mode; afterwards in the mode that it was in."""
        modes = [(layer, layer.training) for layer in self.module.modules()]
        self.module.to(find_device(self.device))
        with suppress(NotImplementedError):  # of torch.export, whose graph holds the mode that it was exported in
            self.module.eval()
        try:
            yield
        finally:
            for layer, mode in modes:
                layer.training = mode


def _to_tensors(batch: Any, place: torch.device, dtype: torch.dtype) -> Any:
    """Return the parts of a batch as tensors: whole numbers as int64, truth values as they are, others as `dtype`."""
    if isinstance(batch, Mapping):
        return {key: _to_tensors(value, place, dtype) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_to_tensors(value, place, dtype) for value in batch)
    try:
        array = loaders.array(batch.toarray() if hasattr(batch, "toarray") else batch)
    except (TypeError, ValueError):
        array = np.array([None])
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"a torch module takes tensors, and was to be given {describe(batch)}, which are not numbers of one shape; "
            "expected numbers (text as codes of categories or tokens, sequences padded to one length), or a function that "
            "makes them: lambda batch: model(prepare(batch))"
        )
    kind = {"b": torch.bool, "f": dtype}.get(array.dtype.kind, torch.int64)
    return torch.from_numpy(np.array(array)).to(place, kind)
