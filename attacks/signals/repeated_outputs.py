"""Whether a model answers a record with the very outputs that it gives the first one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reductions
from audit.core.data import Array, Canaries
from audit.core.models import Models


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedOutputs:
    """True of each record whose outputs are those of the first: of all if a model shows nothing (`View.is_silent`)."""

    key = _reductions.REPEATED_OUTPUTS
    source = "outputs"

    def size(self, classes: int, steps: int) -> int:
        """Numbers of 4 bytes that are kept of one canary under one model, at most."""
        return 1

    def of(self, outputs: Array, first: Array, labels: Array) -> Array:
        """`(N, rows)` bool."""
        return np.asarray((outputs == first[:, None]).all(axis=-1))

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m)` bool; None for canaries that are no records of one class each."""
        return _reductions.read(self, models, canaries)


PLUGIN = RepeatedOutputs
