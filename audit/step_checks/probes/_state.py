"""A step is a function of its batch: equal calls give equal releases, and an empty batch is a batch."""

import math
from dataclasses import dataclass

from audit.step_checks.batches import rows
from audit.step_checks.findings import Finding, PropertyStatus, failure, note, pass_finding
from audit.step_checks.step_under_test import ALMOST_SILENT, NEVER, StepUnderTest
from audit.step_checks.tensors import distance, norm

CARRIED = 1e-2  # of a release, more than rounding moves


@dataclass(frozen=True, slots=True)
class State:
    """Memory between calls, and the empty batch."""

    def run(self, bench: StepUnderTest) -> list[Finding]:
        """Return the findings on memory and on the empty batch."""
        return [_state(bench), _empty(bench)]


def _state(bench: StepUnderTest) -> Finding:
    batch, second_batch, setting = rows(bench.sample, slice(0, 5)), rows(bench.sample, slice(2, 8)), bench.quiet()
    first = bench.release(batch, setting)
    bench.release(second_batch, setting)
    second = bench.release(batch, setting)
    change = distance(first, second)
    if change <= bench.tolerance(setting, batch):
        if (share := _carried_over(bench)) > CARRIED:
            return failure(
                "step.state",
                f"Unclipped and without noise, {share:.3g} of a release comes from the batch before, of which zero_grad leaves "
                "something: a record moves more than one release",
                fix="begin each step from nothing: clear sums and gradients of records in zero_grad",
                witness=bench.witness(batch, second_batch, setting),
            )
        return pass_finding("step.state", "Equal calls give equal releases", change, 0.0)
    return Finding(
        check="step.state",
        status=PropertyStatus.QUESTION,
        message=f"The same call gave releases that differ by {change:.3g}: the step keeps state between calls (an adaptive "
        "clip norm, gradients that are not zeroed, buffers), or its randomness ignores the generator. Is every record's effect "
        "on that state accounted for?",
        measured=change,
        claimed=0.0,
        witness=bench.witness(batch, second_batch, setting),
    )


def _carried_over(bench: StepUnderTest) -> float:
    """Return the share of a release that changes if an optimiser stepped on other records before; 0 if that cannot be told.

    Nothing is clipped, so that an adaptive clip norm changes nothing.
    """
    release_after = getattr(bench.step, "release_after", None)
    if release_after is None or bench.random or not (bench.adjusts("noise_multiplier") and bench.adjusts("clip_norm")):
        return 0.0
    batch, previous = rows(bench.sample, slice(0, 5)), rows(bench.sample, slice(2, 8))
    setting = bench.at(noise=ALMOST_SILENT, clip=NEVER * bench.natural_norms[-1])
    alone, after = (release_after(first, batch, setting, bench.seed) for first in (None, previous))
    size, change = norm(alone), distance(alone, after)
    return change / size if size > 0 and change < math.inf else 0.0


def _empty(bench: StepUnderTest) -> Finding:
    check = "step.empty"
    if bench.empty_error:
        return Finding(
            check=check,
            status=PropertyStatus.WEAKNESS,
            message=f"An empty batch is refused, which ends a training: {bench.empty_error}. Poisson sampling draws one with "
            f"probability {math.exp(-bench.claimed.divisor):.2g} at L = {bench.claimed.divisor:g}",
            fix="release noise alone for an empty batch (x.flatten(1) takes no records, x.view(len(x), -1) does not)",
        )
    setting = bench.quiet()
    if not bench.adjusts("noise_multiplier"):
        return pass_finding(check, "An empty batch is accepted; its noise is tested with the noise")
    size = norm(bench.release(bench.empty, setting))
    if math.isinf(size) and math.isfinite(norm(bench.release(bench.empty, bench.claimed))):
        return pass_finding(
            check, "An empty batch is accepted; without noise its release is not finite, as of a sum over its norm"
        )
    if size > bench.tolerance(setting, bench.empty):
        return failure(
            check,
            f"An empty batch releases {size:.3g} without noise, and not the same after every batch: {_memory(bench)}",
            fix="no momentum, average or error that is fed back may enter the released sum before the noise",
            witness=bench.witness(bench.empty, None, setting),
            measurement=size,
            claim=0.0,
        )
    if bench.constant_size > bench.tolerance(setting, bench.empty):
        return note(
            check,
            f"An empty batch releases {bench.constant_size:.3g} without noise, the same after every batch: a constant such "
            "as weight decay, which is subtracted from every release",
            bench.constant_size,
            0.0,
        )
    return pass_finding(check, "An empty batch releases nothing but noise", size, 0.0)


def _memory(bench: StepUnderTest) -> str:
    """Return what the step remembers: an average holds all earlier records, an error that is fed back only what was clipped."""
    fed_back = "what clipping cut off earlier records is added to later sums (error feedback), so one record moves several"
    if bench.feeds_error_back:
        return fed_back
    return "earlier records are in it, as in an average or a momentum of gradients before the noise"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Two batches with gradients made equal just before the optimiser steps, of steps that have more than a release."""

    def run(self, bench: StepUnderTest) -> list[Finding]:
        """Return the finding on what else depends on the batch; none for a function, which returns all that it changes."""
        find_leaks = getattr(bench.step, "leaks", None)
        if find_leaks is None:
            return []
        first, second = rows(bench.sample, slice(0, 3)), rows(bench.sample, slice(3, 8))
        setting = bench.at(noise=ALMOST_SILENT)
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
