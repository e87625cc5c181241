"""The loader drops its last batch, so its sampler draws more often than is accounted for."""

from __future__ import annotations

import numpy as np

from audit.core.events import Event
from audit.zoo._loops import Batches, Loop, LoopPlan, poisson


class DropLast(Loop):
    """The loader drops its last batch, so its sampler draws more often than is accounted for."""

    wrong = (
        "The sampler draws with one over the loader's length, which drop_last=True rounds down; the plain rate is "
        "accounted for."
    )
    visibility = "drop_last=True left in a loader that a library makes private"

    def _rate(self, plan: LoopPlan) -> float:
        return 1 / (plan.records // plan.batch_size)

    def batches(self, plan: LoopPlan, stream: np.random.Generator) -> Batches:
        """Return samples at one over the number of whole batches."""
        return poisson(plan.records, self._rate(plan), plan.steps, stream)

    def spent(self, plan: LoopPlan) -> tuple[Event, Event]:
        """Return the training at the rate that is drawn with."""
        event = plan.training(rate=self._rate(plan))
        return event, event


PLUGIN = DropLast
