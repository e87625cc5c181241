"""Standard deviation of the noise that was added, held against the accounted one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.checks.executed._row import Z_LIMIT, row
from audit.core.event_reading import noisy_steps
from audit.core.events import Event
from audit.core.results import Check
from audit.core.training import Executed


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Standard deviation of the noise that was added, held against the accounted one."""

    position: ClassVar[int] = 30

    def check(self, event: Event, executed: Executed) -> tuple[Check, ...]:
        """Return the rows that this check adds; none where it has nothing to look at."""
        claimed = noisy_steps(event)
        if claimed is None:
            return ()
        realised, accounted = executed.noise_multiplier, claimed.noise_multiplier
        error = accounted / math.sqrt(2 * max(executed.noise_draws, 1))
        off = float(np.abs(realised - accounted).max())
        value = f"noise multiplier {realised.min():.4f} to {realised.max():.4f} realised, {accounted:.4f} accounted"
        return (row("noise", "Noise", value, off <= Z_LIMIT * error + 1e-4 * accounted),)


PLUGIN = Noise
