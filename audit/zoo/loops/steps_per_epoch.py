"""One step an epoch is accounted for."""

from __future__ import annotations

import math

from audit.zoo._loops import Loop, LoopPlan


class StepsPerEpoch(Loop):
    """One step an epoch is accounted for."""

    wrong = "Accounts for the number of epochs, where it takes a step for every batch."
    visibility = "accountant.step() in the outer loop; epochs given to a formula for steps"

    def accounted_steps(self, plan: LoopPlan) -> int:
        """Return the number of epochs."""
        return max(1, math.floor(plan.steps * plan.rate))


PLUGIN = StepsPerEpoch
