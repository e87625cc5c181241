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
        """Return the batches of epochs in random order, equal ones that leave no record out."""
        count = _batches_an_epoch(plan)
        orders = [stream.permutation(plan.records).tolist() for _ in range(plan.steps // count)]
        return epochs_of_batches(orders, plan.records // count)

    def accounted_rate(self, plan: LoopPlan) -> float:
        """Return the rate of Poisson samples whose mean size is that of these batches."""
        return 1 / _batches_an_epoch(plan)

    def spent(self, plan: LoopPlan) -> tuple[Event, Event]:
        """Return one random place an epoch that only the training knows, and one that everybody knows.

        A record that is removed leaves its place empty. The lower end is what it spends among records whose gradients are zero.
        """
        count = _batches_an_epoch(plan)
        epochs = plan.steps // count
        allocation = RandomAllocation(noise_multiplier=plan.noise_multiplier, steps=count)
        return Repeated(mechanism=allocation, count=epochs), plan.in_one_batch_of(epochs)


def _batches_an_epoch(plan: LoopPlan) -> int:
    """Return how many equal batches all records make, with at least as many records each as planned.

    A short batch, or one that is dropped, would give its place another chance; `RandomAllocation` is about equal chances.
    """
    return next(count for count in range(plan.records // plan.batch_size, 0, -1) if plan.records % count == 0)


PLUGIN = ShuffledBatches
