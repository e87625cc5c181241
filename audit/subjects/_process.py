"""A third-party model in its own process, with limits on time and memory: see `audit.core.confined.worker`."""

from __future__ import annotations

import math

import numpy as np
import torch

from audit.core.confined.process import ConfinedProcess, form_error
from audit.core.errors import ConfigError
from audit.engine.device import find_device
from audit.subjects._loading import Load, loader_name

MEMORY_GIB = 16.0
_JOB = "audit.subjects._serving:serve_model"
_MOST_OUTPUT = 2**30


class ModelProcess:
    """One process for one model, from its loading to the end of the audit.

    Args:
        load: the function that loads the file in the process, which imports it.
        content: of the file.
        name: of the file, for messages.
        device: that the model runs on.
        seconds: for loading, and for each batch.
        memory_gib: that loading and running may take in addition to what torch takes; enforced on the CPU under Linux.

    Raises:
        DataError: the model cannot be loaded, or not within the limits.
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
        """The outputs `(n, classes)` of the model for one batch.

        Raises:
            RuntimeError: the model failed on the batch.
            DataError: it returned something else, or did not end within the limits.
        """
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
