"""One over the ceiling of the loader's length is accounted for, and samples have the asked batch size."""

from __future__ import annotations

import math

from audit.zoo._loops import Loop, LoopPlan


class RateRoundedDown(Loop):
    """One over the ceiling of the loader's length is accounted for, and samples have the asked batch size."""

    wrong = "Accounts for one over the number of batches, rounded up, and draws with the batch size over the number of records."
    visibility = "sample_rate = 1 / len(loader) beside a sampler of one's own"

    def accounted_rate(self, plan: LoopPlan) -> float:
        """Return one over the number of batches, the last one included."""
        return 1 / math.ceil(plan.records / plan.batch_size)


PLUGIN = RateRoundedDown
