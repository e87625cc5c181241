"""Standard deviation of the noise that was added, compared with the accounted one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.checks.executed._row import Z_LIMIT, row
from audit.core.event_reading import sum_noise
from audit.core.events import Event
from audit.core.results import Check
from audit.core.training import Executed


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Standard deviation of the noise that was added, compared with the accounted one."""

    position: ClassVar[int] = 30

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        """Return the rows that this check adds; none if it has nothing to look at."""
        accounted_noise = sum_noise(event)
        if accounted_noise is None:
            return ()
        noise = execution.noise_multiplier
        error = accounted_noise / math.sqrt(2 * max(execution.noise_draws, 1))
        off = float(np.abs(noise - accounted_noise).max())
        value = f"noise multiplier {noise.min():.4f} to {noise.max():.4f} realised, {accounted_noise:.4f} accounted"
        return (row("noise", "Noise", value, off <= Z_LIMIT * error + 1e-4 * accounted_noise),)


PLUGIN = Noise
