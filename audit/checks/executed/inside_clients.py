"""Noise and clipping in the clients' own steps, if a federation trains by DP-SGD inside its clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.checks.executed._row import Z_LIMIT, row
from audit.core.events import Event
from audit.core.results import Check
from audit.core.training import Executed


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideClients:
    """Noise and clipping in the clients' own steps; a federation in which no client took part has nothing to look at."""

    position: ClassVar[int] = 65

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        """Return the rows that this check adds; none if it has nothing to look at."""
        active = execution.inner_draws > 0
        if not active.any():
            return ()
        noise, largest = execution.inner_noise[active], float(execution.inner_norm.max())
        noise_text = f"noise inside clients {noise.min():.4f} to {noise.max():.4f} of the accounted"
        norm_text = f"largest clipped gradient of one record {largest:.6f} of the clip norm"
        errors = 1 / np.sqrt(2.0 * execution.inner_draws[active])
        return (
            row("inner-noise", "Noise inside clients", noise_text, bool((np.abs(noise - 1) <= Z_LIMIT * errors + 1e-4).all())),
            row("inner-clipping", "Clipping inside clients", norm_text, largest <= 1 + 1e-4),
        )


PLUGIN = InsideClients
