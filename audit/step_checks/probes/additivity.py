"""Where nothing is clipped the release is a sum: each record adds its own gradient, whatever is beside it."""

from dataclasses import dataclass

import numpy as np

from audit.step_checks.batches import Batch, rows
from audit.step_checks.findings import Finding, finding, gap, note
from audit.step_checks.step_under_test import NEVER, UNREPEATABLE, StepUnderTest
from audit.step_checks.tensors import distance, norm

TOLERANCE = 1e-2
FIX = (
    "compute each record's loss by itself (reduction 'sum' or 'none', no weights, counts or statistics of the batch) and "
    "divide by a public constant"
)


@dataclass(frozen=True, slots=True)
class Additivity:
    """Batch-dependent losses and normalisers, at a clip norm that no record reaches."""

    def run(self, bench: StepUnderTest) -> list[Finding]:
        """Return the findings on additivity, on the divisor, and on the release of equal records."""
        if not bench.repeatable:
            return [gap(check, UNREPEATABLE) for check in ("sum.additive", "sum.divisor")]
        if not bench.adjusts("clip_norm"):
            reason = "the step takes no other clip_norm, so no setting without clipping can be tested"
            return [gap("sum.additive", reason), gap("sum.divisor", reason)]
        return [_additive(bench), _divisor(bench)]


def _additive(bench: StepUnderTest) -> Finding:
    if bench.random:
        return gap("sum.additive", "the step is random without noise (dropout), so a record alone is not what it is in a batch")
    setting = bench.quiet(clip=NEVER * bench.natural_norms[-1])
    alone = {name: bench.release(record, setting) for name, record in bench.records.items()}
    scale = max(bench.natural_norms)
    worst, location, witness = 0.0, "", None
    for base_name, base in bench.bases():
        release = bench.release(base, setting)
        for name, record in bench.records.items():
            size = norm(alone[name])
            if size == float("inf"):
                continue
            for position, neighbour in bench.additions(base, record):
                total = bench.release(neighbour, setting)
                if _holds(base, record) and distance(total, release) <= TOLERANCE * size:
                    continue  # a step that removes duplicates
                rest = {key: total[key] - release[key] - alone[name][key] for key in total}
                error = norm(rest) / max(size, norm(release), scale)
                if error > worst:
                    worst, location = error, f"{name} record put {position} to {base_name}"
                    witness = bench.witness(base, neighbour, setting)
    copies = rows(bench.sample, [1] * 8)
    eight, single = bench.release(copies, setting), bench.release(rows(bench.sample, [1]), setting)
    error = norm({name: eight[name] - 8 * single[name] for name in eight}) / max(8 * norm(single), norm(eight), 1e-300)
    # a batch without its duplicates is no further from its neighbours; a mean of the batch is told by the pairs above
    counts_once = distance(eight, single) <= TOLERANCE * norm(single) and worst <= TOLERANCE
    if error > worst and not counts_once:
        worst, location, witness = error, "eight equal records against eight times one", bench.witness(copies, None, setting)
    tolerance = TOLERANCE + 64 * bench.step.resolution * setting.divisor * bench.size**0.5 / scale
    message = (
        f"Unclipped, a record's share of the sum depends on its batch by {worst:.3g} of its norm ({location or 'nowhere'})"
    )
    if counts_once and worst <= tolerance:
        return note("sum.additive", f"{message}; equal records count once", worst, 0.0)
    return finding("sum.additive", worst <= tolerance, message, fix=FIX, witness=witness, measurement=worst, claim=0.0)


def _holds(base: Batch, record: Batch) -> bool:
    if not len(base[0]):
        return False
    equal = [(part == own).reshape(len(part), -1).all(axis=1) for part, own in zip(base, record, strict=True)]
    return bool(np.all(equal, axis=0).any())


def _divisor(bench: StepUnderTest) -> Finding:
    check = "sum.divisor"
    if not bench.adjusts("divisor"):
        return gap(check, "the step takes no other divisor; that it divides by a public constant follows from additivity alone")
    batch = rows(bench.sample, slice(0, 5))
    setting, twice = bench.quiet(), bench.quiet(divisor=2 * bench.claimed.divisor)
    release, double = bench.release(batch, setting), bench.release(batch, twice)
    error = distance(release, double) / max(norm(release), 1e-300)
    message = f"Divisors L and 2 L give sums that differ by {error:.3g} of their norm"
    fix = "divide the noisy sum once by the divisor that the step is given, never by the realised batch size"
    witness = bench.witness(batch, None, twice)
    return finding(check, error <= TOLERANCE, message, fix=fix, witness=witness, measurement=error, claim=0.0)


PLUGIN = Additivity
