"""A learning rate is halved if the loss on the private data did not fall, and the look at that loss is not counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.core.data import Array
from audit.zoo._releases import INFINITE, ZooRelease

FAR = 1.5


class ScheduleFromData(ZooRelease):
    """A learning rate is halved if the loss on the private data did not fall, and the look at that loss is not counted."""

    wrong = "Halves the learning rate where the loss on the private data is large: the schedule is released without noise."
    visibility = "ReduceLROnPlateau on the loss of the private data"

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return `(size, 2)`: the model after one noisy step, and the learning rate of the next."""
        truth = float(np.sum(data))
        model = truth + rng.laplace(0.0, 1 / self.epsilon, size)
        return np.column_stack([model, np.where(np.abs(model - truth) > FAR, 0.05, 0.1)])

    def exact(self) -> tuple[float, float]:
        """Return infinity: a model near to one sum and far from the other shows by its learning rate which sum it was."""
        return INFINITE


PLUGIN = ScheduleFromData
