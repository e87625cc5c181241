"""Steps taken, which have to be the steps accounted for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.checks.executed._row import row
from audit.core import event_reading
from audit.core.events import Event
from audit.core.results import Check
from audit.core.training import Executed


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps taken, which have to be the steps accounted for."""

    position: ClassVar[int] = 10

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]:
        """Return the rows that this check adds; none if it has nothing to look at."""
        accounted_steps = event_reading.steps(event)
        value = f"{execution.steps} taken, {accounted_steps} accounted"
        return (row("steps", "Steps", value, execution.steps == accounted_steps),)


PLUGIN = Steps
