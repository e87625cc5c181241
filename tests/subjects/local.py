"""Models and third-party files read in the test's own process, without the time that a process takes to start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch

from audit.core.confined.worker import find_job
from audit.engine.device import find_device
from audit.subjects._loading import Load


class LocalModel:
    """In place of `audit.subjects._confined.ModelProcess`."""

    def __init__(self, load: Load, content: bytes, name: str, *, device: str, seconds: float, memory_gib: float) -> None:
        self.model = load(content, name, find_device(device))
        self.facts = getattr(self.model, "facts", {})

    def __call__(self, batch: torch.Tensor) -> object:
        return self.model(batch)


def read_here(
    job: str, content: bytes, name: str, *, memory_bytes: int, limit: int, facts: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], bytearray]:
    """In place of `audit.core.confined.process.read`: the reply goes through JSON as it does there."""
    (reply, body), _ = find_job(job)[0]({**(facts or {}), "name": name}, bytes(content))
    assert len(body) <= limit
    return json.loads(json.dumps(reply)), bytearray(body)
