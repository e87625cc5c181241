"""A model of somebody else run in the test's own process: `ModelProcess` without the seconds that a process takes."""

from __future__ import annotations

import torch

from audit.engine.device import find_device
from audit.subjects._loading import Load


class LocalModel:
    """In place of `audit.subjects._process.ModelProcess`."""

    def __init__(self, load: Load, content: bytes, name: str, *, device: str, seconds: float, memory_gib: float) -> None:
        self.model = load(content, name, find_device(device))

    def __call__(self, batch: torch.Tensor) -> object:
        return self.model(batch)
