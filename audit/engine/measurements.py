"""What really happened in a training of a chunk, gathered while it happens, and what of it goes outside."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from audit.core.training import Progress

_PROGRESS_SECONDS = 0.1


@dataclass(slots=True, kw_only=True, eq=False)
class Measurements:
    """Figures of N models."""

    batch_sizes: np.ndarray  # `(N, steps)`
    noise_norms: Tensor  # `(steps, N)` of the noise that was added
    largest: Tensor  # `(N,)` norm that entered a sum, over the clip norm
    non_finite_counts: Tensor  # `(N,)` examples with a gradient that was not finite

    @staticmethod
    def empty(flat: Tensor, steps: int) -> Measurements:
        count = len(flat)
        return Measurements(
            batch_sizes=np.zeros((count, steps), dtype=np.int64),
            noise_norms=flat.new_zeros(steps, count),
            largest=flat.new_zeros(count),
            non_finite_counts=torch.zeros(count, dtype=torch.int64, device=flat.device),
        )


class ThrottledProgress:
    """Passes progress on at most ten times a second."""

    def __init__(self, progress: Progress, models: int) -> None:
        self._progress, self._models = progress, models
        self._waiting, self._last = 0, time.monotonic()

    def step(self) -> None:
        self._waiting += self._models
        if time.monotonic() - self._last > _PROGRESS_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._progress(self._waiting)
        self._waiting, self._last = 0, time.monotonic()


def export(state: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: value.detach().cpu().numpy().copy() for name, value in state.items()}
