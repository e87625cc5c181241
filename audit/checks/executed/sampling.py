"""Mean and dispersion of the batch sizes, held against Poisson sampling at the accounted rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.checks.executed._row import Z_LIMIT, row
from audit.core import event_reading
from audit.core.events import Event
from audit.core.results import Check
from audit.core.training import Executed


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Mean and dispersion of the batch sizes, held against Poisson sampling at the accounted rate."""

    position: ClassVar[int] = 20

    def check(self, event: Event, executed: Executed) -> tuple[Check, ...]:
        """Return the rows that this check adds; none where it has nothing to look at."""
        rate, draws = event_reading.sample_rate(event), executed.batch_sizes.size
        if draws == 0 or rate is None:  # None: no law of Poisson batches to hold them against
            return ()
        expected = rate * executed.population[:, None]
        if rate in (0.0, 1.0):
            exact = bool((executed.batch_sizes == expected).all())
            return (row("sampling", "Sampling", f"every record in every step with probability {rate:g}", exact),)
        variance = expected * (1 - rate)
        z = (executed.batch_sizes - expected) / np.sqrt(variance)
        realised = float(executed.batch_sizes.mean() / executed.population.mean())
        mean_holds = abs(z.mean()) * math.sqrt(draws) < Z_LIMIT
        spread = float((z**2).mean())
        spread_holds = abs(spread - 1) * math.sqrt(draws / 2) < Z_LIMIT * (1 + 1 / float(variance.min()))
        return (
            row("sampling", "Sampling rate", f"{realised:.4g} realised, {rate:.4g} accounted", mean_holds),
            row("sampling-law", "Sampling law", f"Poisson; realised variance {spread:.3f} of the law's", spread_holds),
        )


PLUGIN = Sampling
