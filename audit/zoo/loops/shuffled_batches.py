"""Records are shuffled anew in every epoch and cut into batches, which are accounted for as Poisson samples."""

from __future__ import annotations

import numpy as np

from audit.core.amplified_events import RandomAllocation
from audit.core.events import Event, Repeated
from audit.zoo._loops import Batches, Loop, LoopPlan, epochs_of_batches


class ShuffledBatches(Loop):
    """Records are shuffled anew in every epoch and cut into batches, which are accounted for as Poisson samples."""

    wrong = "Cuts a shuffled data set into batches, and accounts for Poisson samples."
    visibility = "DataLoader(shuffle=True) under a private optimiser; Chua et al. 2024, arXiv 2403.17673"

    def batches(self, plan: LoopPlan, stream: np.random.Generator) -> Batches:
        """Return the whole batches of epochs in random order."""
        orders = [stream.permutation(plan.records).tolist() for _ in range(_epochs(plan))]
        return epochs_of_batches(orders, plan.batch_size)

    def spent(self, plan: LoopPlan) -> tuple[Event, Event]:
        """Return one random place an epoch that only the training knows, and one that everybody knows."""
        allocation = RandomAllocation(noise_multiplier=plan.noise_multiplier, steps=plan.records // plan.batch_size)
        return Repeated(mechanism=allocation, count=_epochs(plan)), plan.in_one_batch_of(_epochs(plan))


def _epochs(plan: LoopPlan) -> int:
    return plan.steps // (plan.records // plan.batch_size)


PLUGIN = ShuffledBatches
