"""A training stops as soon as its loss on the private data is small, and the looks at that loss are not counted."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from audit.core.data import Array
from audit.zoo._releases import INFINITE, ZooRelease

STEPS, CLOSE = 4, 2.0


class EarlyStopping(ZooRelease):
    """A training stops as soon as its loss on the private data is small, and the looks at that loss are not counted."""

    wrong = "Stops when the loss on the private data is small: which models were good enough is released without noise."
    visibility = "EarlyStopping callbacks on a split of the private data"
    data = (1.0,)
    neighbour = ()

    public_target: ClassVar[float | None] = None

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return `(size, 2)`: the model and the number of steps; a model is the mean of the noisy sums so far."""
        truth = float(np.sum(data))
        sums = truth + rng.laplace(0.0, STEPS / self.epsilon, (size, STEPS))
        models = sums.cumsum(axis=1) / np.arange(1, STEPS + 1)
        target = truth if self.public_target is None else self.public_target
        close = np.abs(models - target) <= CLOSE
        close[:, -1] = True  # the last step ends it in any case
        end = close.argmax(axis=1)
        return np.column_stack([models[np.arange(size), end], end + 1])

    def exact(self) -> tuple[float, float]:
        """Return infinity: a model that stopped early is close to one sum, and may be too far from the other."""
        return INFINITE


PLUGIN = EarlyStopping
