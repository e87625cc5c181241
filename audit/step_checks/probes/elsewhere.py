"""Nothing learns of the records but the release: not buffers, nor the state of the optimiser, nor parameters past it."""

from __future__ import annotations

from dataclasses import dataclass

from audit.step_checks.batches import rows
from audit.step_checks.findings import Finding, failure, pass_finding
from audit.step_checks.step_under_test import StepUnderTest


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Two batches with gradients made equal just before the optimiser steps, of steps that have more than a release."""

    def run(self, bench: StepUnderTest) -> list[Finding]:
        """Return the finding on what else depends on the batch; none for a function, which returns all that it changes."""
        find_leaks = getattr(bench.step, "leaks", None)
        if find_leaks is None:
            return []
        first, second, setting = rows(bench.sample, slice(0, 3)), rows(bench.sample, slice(3, 8)), bench.quiet()
        names = find_leaks(first, second, setting, bench.seed)
        if not names:
            return [pass_finding("step.elsewhere", "Given equal gradients, parameters, buffers and optimiser end equal")]
        return [
            failure(
                "step.elsewhere",
                f"Given equal gradients, two batches leave different values in {', '.join(names[:4])}: they depend on the "
                "records past the noisy release",
                fix="let buffers and the optimiser read the released gradient alone, never inputs or raw gradients",
                witness=bench.witness(first, second, setting),
            )
        ]


PLUGIN = Elsewhere
