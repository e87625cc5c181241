"""An ONNX graph of one input and one output of logits or probabilities, run by onnxruntime on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from audit.core.errors import DataError
from audit.subjects._confined import ConfinedFile, Model, output_logits, unreadable
from audit.subjects._onnx_external import refuse_external


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Onnx(ConfinedFile):
    """An ONNX graph of one input and one output of logits or probabilities, run by onnxruntime on the CPU."""

    suffixes: ClassVar[tuple[str, ...]] = (".onnx",)
    library: ClassVar[str] = "onnxruntime"

    @staticmethod
    def load(content: bytes, name: str, device: torch.device) -> Model:
        """The graph of an ONNX file.

        Raises:
            DataError: onnxruntime cannot read it, it names other files, or it has more than one input.
        """
        refuse_external(content, name)
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as states

        names = (
            "Fail",
            "InvalidArgument",
            "InvalidGraph",
            "InvalidProtobuf",
            "NoSuchFile",
            "NotImplemented",
            "RuntimeException",
        )
        failures: tuple[type[Exception], ...] = (ValueError, *(getattr(states, state) for state in names))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
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
