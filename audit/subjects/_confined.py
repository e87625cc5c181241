"""A model file of a library other than torch, read and run in a separate, confined process: one file adds a library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from audit.core.confined.process import SECONDS, form_error
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.data.source import read_bytes
from audit.engine.read.inference import BATCH_SIZE, batched_logits
from audit.subjects._process import MEMORY_GIB, ModelProcess

Model = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfinedFile(ABC):
    """A file that a library other than torch reads; a subclass names the library and says how.

    Attributes:
        path: the file.
        batch_size: records at once.
        seconds, memory_gib: limits on loading and on each batch; see `audit.core.confined.process`.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
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
        object.__setattr__(self, "_model", ModelProcess(self.load, content, name, device="cpu", **limits))

    @staticmethod
    @abstractmethod
    def load(content: bytes, name: str, device: torch.device) -> Model:
        """Return the model in a file of this `content` as a function of a batch; runs inside the confined process.

        Args:
            content: of the file.
            name: of the file, for messages.
            device: always the CPU so far.

        Raises:
            DataError: the library cannot read it, or it is no classifier.
        """

    @property
    def classes_(self) -> Array | None:
        """The class of each column of the outputs, `(classes,)`, of an estimator that names them."""
        names = self._model.facts.get("classes")
        if names is None:
            return None
        kinds = {type(name) for name in names} if isinstance(names, list) else set()
        if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
            raise form_error(Path(self.path).name)
        return np.array(names)

    def logits(self, inputs: Array) -> Array:
        """Outputs for `inputs` `(n, ...)`, `(n, classes)` float32."""
        return batched_logits(self._model, inputs, batch_size=self.batch_size, dtype=torch.float32)


def output_logits(outputs: Any) -> torch.Tensor:
    """Return outputs as `(n, classes)` float32; a single number a record is the logit of the second of two classes."""
    values = np.asarray(outputs, np.float32)
    if values.ndim == 1:
        values = np.stack([np.zeros_like(values), values], axis=1)
    return torch.from_numpy(np.ascontiguousarray(values))


def unreadable(name: str, library: str, error: BaseException) -> DataError:
    """Return the error for a file that its library refuses."""
    return DataError(f"{name} cannot be read by {library}: {str(error).strip().partition(chr(10))[0][:300]}")
