"""The largest clipped gradient, which no example may exceed."""

from dataclasses import dataclass
from typing import ClassVar

from audit.checks.executed._row import count_recomputed, recomputation_row, row
from audit.core.event_reading import sum_noise
from audit.core.events import Event
from audit.core.phrases import phrase
from audit.core.results import Check
from audit.core.training import Executed


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipping:
    """The largest clipped gradient, which no example may exceed."""

    position: ClassVar[int] = 40

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        if sum_noise(event) is None:
            return ()
        largest = float(execution.largest_norm.max(initial=0.0))
        value = phrase("largest clipped gradient {length} of the clip norm", length=f"{largest:.6f}")
        return (row("clipping", "Clipping", value, largest <= 1 + 1e-4),)  # up to rounding in single precision


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippingRecomputed:
    """Clipped gradients of single examples, computed again by plain autograd."""

    position: ClassVar[int] = 50

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        if sum_noise(event) is None:
            return ()
        description = phrase(
            "clipped gradients of {count} examples recomputed one at a time by plain autograd",
            count=count_recomputed(execution.recomputed),
        )
        names = ("clipping-recomputed", "Clipping, recomputed", description)
        return recomputation_row(execution.recomputed, names, "the clip norm")


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsRecomputed:
    """Summed gradients of trainings without noise, computed again by plain autograd."""

    position: ClassVar[int] = 70

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        if sum_noise(event) is not None:
            return ()
        description = phrase(
            "summed gradients of {count} models recomputed by plain autograd", count=count_recomputed(execution.recomputed)
        )
        names = ("gradients-recomputed", "Gradients, recomputed", description)
        return recomputation_row(execution.recomputed, names, "their norm")
