"""Mean and dispersion of the batch sizes, compared with Poisson sampling at the accounted rate."""

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
    """Mean and dispersion of the batch sizes, compared with Poisson sampling at the accounted rate."""

    position: ClassVar[int] = 20

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        """Return the rows that this check adds; none if it has nothing to look at."""
        rate, draws = event_reading.sample_rate(event), execution.batch_sizes.size
        if draws == 0 or rate is None:  # None: no law of Poisson batches to hold them against
            return ()
        expected_sizes = rate * execution.population[:, None]
        if rate in (0.0, 1.0):
            exact = bool((execution.batch_sizes == expected_sizes).all())
            unit = "client" if event_reading.unit(event) == "client" else "record"
            return (row("sampling", "Sampling", f"every {unit} in every step with probability {rate:g}", exact),)
        variance = expected_sizes * (1 - rate)
        z = (execution.batch_sizes - expected_sizes) / np.sqrt(variance)
        realised_rate = float(execution.batch_sizes.mean() / execution.population.mean())
        mean_holds = abs(z.mean()) * math.sqrt(draws) < Z_LIMIT
        dispersion = float((z**2).mean())
        spread_holds = abs(dispersion - 1) * math.sqrt(draws / 2) < Z_LIMIT * (1 + 1 / float(variance.min()))
        return (
            row("sampling", "Sampling rate", f"{realised_rate:.4g} realised, {rate:.4g} accounted", mean_holds),
            row("sampling-law", "Sampling law", f"Poisson; realised variance {dispersion:.3f} of the law's", spread_holds),
        )


PLUGIN = Sampling
