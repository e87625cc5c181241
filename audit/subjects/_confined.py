"""A model file of another library, read and run in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import torch

from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.data.source import read_bytes
from audit.engine.inference import BATCH_SIZE, batched_logits
from audit.subjects._process import MEMORY_GIB, SECONDS, ModelProcess


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfinedFile:
    """A file that a library other than torch reads; subclasses say which.

    Attributes:
        path: the file.
        batch_size: records at once.
        seconds, memory_gib: limits on loading and on each batch; see `audit.subjects._process`.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    form: ClassVar[str] = ""
    library: ClassVar[str] = ""

    path: str
    batch_size: int = BATCH_SIZE
    seconds: float = SECONDS
    memory_gib: float = MEMORY_GIB
    _model: ModelProcess = field(init=False, repr=False)

    def __post_init__(self) -> None:
        content, name = read_bytes(Path(self.path), "target"), Path(self.path).name
        if find_spec(self.library) is None:
            raise ConfigError(f"{name} needs {self.library}, which is not installed: pip install {self.library}")
        limits = {"seconds": self.seconds, "memory_gib": self.memory_gib}
        object.__setattr__(self, "_model", ModelProcess(self.form, content, name, device="cpu", **limits))

    def logits(self, inputs: Array) -> Array:
        """Outputs for `inputs` `(n, ...)`, `(n, classes)` float32."""
        return batched_logits(self._model, inputs, batch_size=self.batch_size, dtype=torch.float32)
