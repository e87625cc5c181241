"""A correct twin: one over the floor of the loader's length is accounted for, more than is drawn."""

from __future__ import annotations

from audit.zoo._loops import Loop, LoopPlan


class RateRoundedUp(Loop):
    """A correct twin: one over the floor of the loader's length is accounted for, more than is drawn."""

    visibility = "the rate of a loader that drops its last batch, with samples of the batch size: utility is lost, no privacy"

    def accounted_rate(self, plan: LoopPlan) -> float:
        """Return one over the number of whole batches."""
        return 1 / (plan.records // plan.batch_size)


PLUGIN = RateRoundedUp
