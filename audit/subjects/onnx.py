"""An ONNX graph of one input and one output of logits or probabilities, run by onnxruntime on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.subjects._confined import ConfinedFile


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Onnx(ConfinedFile):
    """An ONNX graph of one input and one output of logits or probabilities, run by onnxruntime on the CPU."""

    suffixes: ClassVar[tuple[str, ...]] = (".onnx",)
    form: ClassVar[str] = "onnx"
    library: ClassVar[str] = "onnxruntime"


PLUGIN = Onnx
