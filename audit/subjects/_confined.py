"""A model file of a library other than torch, read and run in a separate, confined process: one file adds a library."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from audit.core.confined.process import SECONDS, ConfinedProcess, form_error
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.data.source import read_bytes
from audit.engine.device import find_device
from audit.engine.read.inference import BATCH_SIZE, batched_logits
from audit.subjects._loading import Load, loader_name

# A third-party model in its own process, with limits on time and memory: see `audit.core.confined.worker`.
MEMORY_GIB = 16.0
_JOB = "audit.subjects._serving:serve_model"
_MOST_OUTPUT = 2**30


class ModelProcess:
    """One process for one model, which `load`, a function that it imports, reads; from its loading to the end of the audit.

    `memory_gib`, in addition to what torch takes, and `seconds` limit loading and each batch.
    """

    def __init__(self, load: Load, content: bytes, name: str, *, device: str, seconds: float, memory_gib: float) -> None:
        if not 0 < memory_gib < math.inf:
            raise ConfigError(f"memory_gib is {memory_gib}; expected a positive number")
        find_device(device)
        self.name, self.seconds = name, seconds
        header = {"load": loader_name(load), "device": device, "threads": torch.get_num_threads()}
        memory = int(memory_gib * 2**30)
        self._process = ConfinedProcess(_JOB, content, name, seconds=seconds, memory_bytes=memory, limit=0, facts=header)
        self.limits = self._process.limits
        self.facts = self._process.facts

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        """The outputs `(n, classes)` of the model for one batch; `RuntimeError` if it fails, `DataError` beyond the limits."""
        array = np.ascontiguousarray(batch.numpy())
        header = {"shape": list(array.shape), "dtype": str(batch.dtype).removeprefix("torch.")}
        action = f"answer a batch of {len(batch)} records"
        reply, body = self._process.ask(header, array.data.cast("B"), action, self.seconds, _MOST_OUTPUT)
        shape = reply.get("shape")
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            raise form_error(self.name)
        if len(body) != 4 * math.prod(shape):
            raise form_error(self.name)
        return torch.from_numpy(np.frombuffer(body, np.float32).reshape(shape))


Model = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfinedFile(ABC):
    """A file that a library other than torch reads; a subclass names the library and says how.

    Attributes:
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
        """Return the model in a file of this `content`, or `DataError`; runs inside the confined process, on the CPU."""

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
        """Outputs for `inputs` `(n, ...)`, `(n, classes)` float32; libraries of trees compare numbers as they are."""
        dtype = torch.float32 if inputs.dtype in (np.float16, np.float32) else torch.float64
        return batched_logits(self._model, inputs, batch_size=self.batch_size, dtype=dtype)


def output_logits(outputs: Any) -> torch.Tensor:
    """Return outputs as `(n, classes)` float32; a single number a record is the logit of the second of two classes."""
    values = np.asarray(outputs, np.float32)
    if values.ndim == 1:
        values = np.stack([np.zeros_like(values), values], axis=1)
    return torch.from_numpy(np.ascontiguousarray(values))


def unreadable(name: str, library: str, error: BaseException) -> DataError:
    return DataError(f"{name} cannot be read by {library}: {str(error).strip().partition(chr(10))[0][:300]}")
