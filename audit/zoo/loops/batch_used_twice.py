"""Every batch that is drawn serves for two steps."""

from __future__ import annotations

import math

import numpy as np

from audit.core.events import Event
from audit.zoo._loops import Batches, Loop, LoopPlan, poisson


class BatchUsedTwice(Loop):
    """Every batch that is drawn serves for two steps."""

    wrong = "Takes two steps on each batch that is drawn, and accounts for a fresh sample in each."
    visibility = "inner loops of policy optimisation; data echoing"

    def batches(self, plan: LoopPlan, stream: np.random.Generator) -> Batches:
        """Return each sample twice."""
        return [draw for draw in poisson(plan.records, plan.rate, plan.steps // 2, stream) for _ in range(2)]

    def spent(self, plan: LoopPlan) -> tuple[Event, Event]:
        """Return half the steps with two releases each, which are one with the noise over the root of 2."""
        event = plan.training(steps=plan.steps // 2, noise_multiplier=plan.noise_multiplier / math.sqrt(2))
        return event, event


PLUGIN = BatchUsedTwice
