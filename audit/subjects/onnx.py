"""An ONNX graph of one input and one output of logits or probabilities, run by onnxruntime on the CPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from audit.core.errors import DataError
from audit.subjects._confined import ConfinedFile, Model, output_logits, unreadable

# Whether an ONNX file asks for other files: its tensors may name one, which the hash of the model would not cover.
# fields of onnx.proto by their numbers, those through which a tensor can be reached
_FIELDS = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "function": {7: "node", 11: "attribute"},
}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14
_DEEPEST = 100


def refuse_external(content: bytes, name: str) -> None:
    """Raise `DataError` if a tensor is in another file, or the fields cannot be read."""
    view = memoryview(content)
    waiting = [("model", 0, len(view), 0)]  # a list and no recursion, whose depth a file could exhaust
    while waiting:
        kind, start, end, depth = waiting.pop()
        if depth > _DEEPEST:
            raise DataError(f"{name} is refused: its graphs are nested more than {_DEEPEST} deep")
        for number, value in _fields(view, start, end, name):
            if kind == "tensor":
                if number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0):
                    raise DataError(
                        f"{name} is refused: it keeps tensors in other files (external data); save the model with its weights "
                        "in one file"
                    )
            elif number in _FIELDS[kind] and isinstance(value, tuple):
                waiting.append((_FIELDS[kind][number], *value, depth + 1))


def _fields(view: memoryview, position: int, end: int, name: str) -> Iterator[tuple[int, int | tuple[int, int]]]:
    """Number of each field of a message, with its value or the place of its content."""
    while position < end:
        key, position = _varint(view, position, end, name)
        form = key & 7  # protobuf: the low three bits say how the value is written
        if form == 0:
            value, position = _varint(view, position, end, name)
            yield key >> 3, value
        elif form == 2:
            size, position = _varint(view, position, end, name)
            if size > end - position:
                raise _damage_error(name)
            yield key >> 3, (position, position + size)
            position += size
        elif form in (1, 5):
            position += 8 if form == 1 else 4
        else:
            raise _damage_error(name)


def _varint(view: memoryview, position: int, end: int, name: str) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):  # ten bytes hold 64 bits
        if position >= end:
            raise _damage_error(name)
        byte = view[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise _damage_error(name)


def _damage_error(name: str) -> DataError:
    return DataError(f"{name} cannot be read as ONNX: its fields do not fit its length; save the model again")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Onnx(ConfinedFile):
    """An ONNX graph of one input and one output of logits or probabilities, run by onnxruntime on the CPU."""

    suffixes: ClassVar[tuple[str, ...]] = (".onnx",)
    library: ClassVar[str] = "onnxruntime"

    @staticmethod
    def load(content: bytes, name: str, device: torch.device) -> Model:
        """The graph; `DataError` if onnxruntime cannot read it, it names other files, or it has more than one input."""
        refuse_external(content, name)
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as states

        names = "Fail InvalidArgument InvalidGraph InvalidProtobuf NoSuchFile NotImplemented RuntimeException"
        failures: tuple[type[Exception], ...] = (ValueError, *(getattr(states, state) for state in names.split()))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # fatal ones alone: all others are raised
        options.intra_op_num_threads = torch.get_num_threads()
        try:
            session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except failures as error:
            raise unreadable(name, "onnxruntime", error) from error
        inputs = session.get_inputs()
        if len(inputs) != 1:
            raise DataError(f"{name} has {len(inputs)} inputs; expected one, the records")
        types = {
            "tensor(float)": np.float32,
            "tensor(double)": np.float64,
            "tensor(int64)": np.int64,
            "tensor(int32)": np.int32,
        }
        if inputs[0].type not in types:
            raise DataError(f"{name} takes {inputs[0].type}; expected one of {', '.join(types)}")
        outputs = [output.name for output in session.get_outputs() if output.type in ("tensor(float)", "tensor(double)")]
        if len(outputs) != 1:
            raise DataError(
                f"{name} has {len(outputs)} outputs of floating-point numbers; expected one, of logits or probabilities (of a "
                "scikit-learn model, export with zipmap=False)"
            )

        def call(batch: torch.Tensor) -> torch.Tensor:
            try:
                (values,) = session.run(outputs, {inputs[0].name: batch.numpy().astype(types[inputs[0].type])})
            except failures as error:
                raise RuntimeError(str(error)) from error
            return output_logits(values)

        return call


PLUGIN = Onnx
