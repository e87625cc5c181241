"""Steps taken, which have to be the steps accounted for."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.checks.executed._row import Z_LIMIT, row
from audit.core import event_reading
from audit.core.data import Array
from audit.core.deployed_events import MatrixFactorization
from audit.core.events import Event
from audit.core.phrases import join_clauses, phrase
from audit.core.results import Check, Status
from audit.core.training import Executed


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps taken, which have to be the steps accounted for."""

    position: ClassVar[int] = 10

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        accounted_steps = event_reading.steps(event)
        value = phrase("{taken} taken, {accounted} accounted", taken=execution.steps, accounted=accounted_steps)
        return (row("steps", "Steps", value, execution.steps == accounted_steps),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Mean and dispersion of the batch sizes, compared with Poisson sampling at the accounted rate."""

    position: ClassVar[int] = 20

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        rate, draws = event_reading.sample_rate(event), execution.batch_sizes.size
        if draws == 0 or rate is None:  # None: no law of Poisson batches to hold them against
            return ()
        expected_sizes = rate * execution.population[:, None]
        if rate in (0.0, 1.0):
            exact = bool((execution.batch_sizes == expected_sizes).all())
            if event_reading.unit(event) == "client":
                value = phrase("every client in every step with probability {probability}", probability=f"{rate:g}")
            else:
                value = phrase("every record in every step with probability {probability}", probability=f"{rate:g}")
            return (row("sampling", "Sampling", value, exact),)
        variance = expected_sizes * (1 - rate)
        z = (execution.batch_sizes - expected_sizes) / np.sqrt(variance)
        realised_rate = float(execution.batch_sizes.mean() / execution.population.mean())
        mean_holds = abs(z.mean()) * math.sqrt(draws) < Z_LIMIT
        dispersion = float((z**2).mean())
        spread_holds = abs(dispersion - 1) * math.sqrt(draws / 2) < Z_LIMIT * (1 + 1 / float(variance.min()))
        spread = phrase("realised variance {ratio} of the law's", ratio=f"{dispersion:.3f}")
        value = phrase("{realised} realised, {accounted} accounted", realised=f"{realised_rate:.4g}", accounted=f"{rate:.4g}")
        return (
            row("sampling", "Sampling rate", value, mean_holds),
            row("sampling-law", "Sampling law", join_clauses(("Poisson", spread)), spread_holds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclicBatches:
    """Batches in cycles, in each of which every record takes part once: their members are all records, and come back.

    Sizes of a trainer that shuffles anew in every cycle come back too, so they refute and never confirm. Members are compared
    by their digests, if the trainer records them.
    """

    position: ClassVar[int] = 25

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        sizes, digests = execution.batch_sizes, execution.batch_digests
        if not isinstance(event, MatrixFactorization) or not sizes.size:
            return ()
        cycle = event.separation
        if not _in_cycles(sizes, execution.population, cycle):
            return (_row(f"sizes of batches do not come back in cycles of {cycle} that take every record once", Status.FAILED),)
        if not digests.size or digests.shape[1] < cycle:
            value = f"batch sizes come back in cycles of {cycle}; who is in each batch was not recorded"
            return (_row(value, Status.DECLARED),)
        if not _in_cycles(digests, execution.population_digest, cycle):
            value = f"members of batches do not come back in cycles of {cycle} that take every record once"
            return (_row(value, Status.FAILED),)
        value = f"each record in one batch of every {cycle}, {-(-event.steps // cycle)} times in all"
        return (_row(value, Status.CHECKED),)


def _in_cycles(batches: Array, whole: Array, cycle: int) -> bool:
    """Return whether numbers of batches `(N, steps)` come back after each cycle, and add up to the whole in the first.

    A training shorter than a cycle has to stay within the whole, which only sizes can be compared with.
    """
    if batches.shape[1] < cycle:
        return bool((batches.sum(axis=1) <= whole).all())
    adds_up = bool((batches[:, :cycle].sum(axis=1) == whole).all())
    return adds_up and np.array_equal(batches[:, cycle:], batches[:, : batches.shape[1] - cycle])


def _row(value: str, status: Status) -> Check:
    return Check(code="sampling-cycles", item="Sampling, in cycles", value=value, status=status)
