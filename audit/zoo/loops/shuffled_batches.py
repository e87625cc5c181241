"""Records are shuffled anew in every epoch and cut into batches, which are accounted for as Poisson samples."""

from __future__ import annotations

import numpy as np

from audit.core.events import Event
from audit.stats.curves import largest_release, pld
from audit.zoo._loops import Batches, Loop, LoopPlan, make_epochs


class ShuffledBatches(Loop):
    """Records are shuffled anew in every epoch and cut into batches, which are accounted for as Poisson samples."""

    wrong = "Cuts a shuffled data set into batches, and accounts for Poisson samples."
    visibility = "DataLoader(shuffle=True) under a private optimiser; Chua et al. 2024, arXiv 2403.17673"

    def batches(self, plan: LoopPlan, stream: np.random.Generator) -> Batches:
        """Return the batches of epochs in random order, equal ones that leave no record out."""
        count = _batches_an_epoch(plan)
        orders = [stream.permutation(plan.records).tolist() for _ in range(plan.steps // count)]
        return make_epochs(orders, plan.records // count)

    def accounted_rate(self, plan: LoopPlan) -> float:
        """Return the rate of Poisson samples whose mean size is that of these batches."""
        return 1 / _batches_an_epoch(plan)

    def spent(self, plan: LoopPlan) -> tuple[Event, Event]:
        """Return what a record spends whose place everybody knows, which is an upper end."""
        releases = plan.one_batch_epsilon(plan.steps // _batches_an_epoch(plan))
        return releases, releases

    def truth(self, plan: LoopPlan) -> tuple[float, float]:
        """Return a lower end from the largest release of an epoch, and the upper end of a place that everybody knows.

        Every other record pulls by the clip norm one way and the record under test by as much the other way; a record that is
        removed leaves its place empty. The sum of its batch then stands out from the others of its epoch by two clip norms, and
        by one without it. What is read off a release, here the cell that the largest one is in, spends no more than it does.
        """
        count = _batches_an_epoch(plan)
        unit = 1 / plan.noise_multiplier
        pair = largest_release.shifts_told_apart(count, 2 * unit, unit)
        lower, _ = pld.epsilon_bracket([(lambda way, tail: pair, plan.steps // count)], plan.delta)
        return lower, super().truth(plan)[1]


def _batches_an_epoch(plan: LoopPlan) -> int:
    """Return how many equal batches all records make, with at least as many records each as planned.

    A short batch, or one that is dropped, would give its place another chance; every place has the same here.
    """
    return next(count for count in range(plan.records // plan.batch_size, 0, -1) if plan.records % count == 0)


PLUGIN = ShuffledBatches
