"""Batches in cycles, in each of which every record takes part once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.checks.executed._row import row
from audit.core.deployed_events import MatrixFactorization
from audit.core.events import Event
from audit.core.results import Check
from audit.core.training import Executed


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclicBatches:
    """Batches in cycles, in each of which every record takes part once: their sizes add up to all records, and come back."""

    position: ClassVar[int] = 25

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        """Return the rows that this check adds; none where it has nothing to look at."""
        sizes = execution.batch_sizes
        if not isinstance(event, MatrixFactorization) or not sizes.size:
            return ()
        cycle = event.separation
        if sizes.shape[1] >= cycle:
            whole = bool((sizes[:, :cycle].sum(axis=1) == execution.population).all())
        else:
            whole = bool((sizes.sum(axis=1) <= execution.population).all())
        returns = bool(np.array_equal(sizes[:, cycle:], sizes[:, : max(0, sizes.shape[1] - cycle)]))
        value = f"each record in one batch of every {cycle}, {-(-event.steps // cycle)} times in all"
        return (row("sampling-cycles", "Sampling, in cycles", value, whole and returns),)


PLUGIN = CyclicBatches
