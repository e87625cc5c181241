"""Noise on the counts of clipped examples, if clipping releases such counts."""

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
class CountNoise:
    """Noise on the counts of clipped examples, if clipping releases such counts."""

    position: ClassVar[int] = 60

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        """Return the rows that this check adds; none if it has nothing to look at."""
        realised_noise = execution.count_noise
        if noisy_steps(event) is None or not len(realised_noise):
            return ()
        value = (
            f"noise on the counts of clipped examples {realised_noise.min():.3f} to {realised_noise.max():.3f} of the accounted"
        )
        off = float(np.abs(realised_noise - 1).max())
        return (row("count-noise", "Noise on counts", value, off <= Z_LIMIT / math.sqrt(2 * execution.steps)),)


PLUGIN = CountNoise
