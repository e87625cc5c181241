"""Every epoch has the same batches in the same order."""

from __future__ import annotations

import numpy as np

from audit.core.events import Event
from audit.zoo._loops import Batches, Loop, LoopPlan, make_epochs


class SameBatches(Loop):
    """Every epoch has the same batches in the same order."""

    wrong = "Runs over fixed batches in their order, and accounts for Poisson samples: nobody is hidden by the sampling."
    visibility = "DataLoader without shuffle; data sets cut into shards of a batch each"

    def batches(self, plan: LoopPlan, stream: np.random.Generator) -> Batches:
        """Return the whole batches of the data set, epoch after epoch."""
        return make_epochs([range(plan.records)] * self._epochs(plan), plan.batch_size)

    def _epochs(self, plan: LoopPlan) -> int:
        return plan.steps // (plan.records // plan.batch_size)

    def spent(self, plan: LoopPlan) -> tuple[Event, Event]:
        """Return what a record costs in the batch that everybody knows."""
        event = plan.one_batch_epsilon(self._epochs(plan))
        return event, event


PLUGIN = SameBatches
