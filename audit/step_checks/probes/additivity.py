"""Where nothing is clipped the release is a sum: each record adds its own gradient, whatever is beside it."""

from dataclasses import dataclass

import numpy as np

from audit.step_checks.batches import Batch, rows
from audit.step_checks.findings import Finding, finding, gap, note
from audit.step_checks.probes._shares import EVERY, SOME, additions, pairs
from audit.step_checks.step_under_test import NEVER, UNREPEATABLE, StepUnderTest
from audit.step_checks.tensors import distance, norm

TOLERANCE = 1e-2
CLEAR = 0.1  # share of it below which some pairs are enough
FIX = (
    "compute each record's loss by itself (reduction 'sum' or 'none', no weights, counts or statistics of the batch) and "
    "divide by a public constant"
)


@dataclass(frozen=True, slots=True)
class Additivity:
    """Batch-dependent losses and normalisers, at a clip norm that no record reaches."""

    def run(self, bench: StepUnderTest) -> list[Finding]:
        """Return the finding on additivity, also of equal records."""
        if not bench.repeatable:
            return [gap("sum.additive", UNREPEATABLE)]
        if not bench.adjusts("clip_norm"):
            return [gap("sum.additive", "the step takes no other clip_norm, so no setting without clipping can be tested")]
        return [_additive(bench)]


def _additive(bench: StepUnderTest) -> Finding:
    if bench.random:
        return gap("sum.additive", "the step is random without noise (dropout), so a record alone is not what it is in a batch")
    setting = bench.quiet(clip=NEVER * bench.natural_norms[-1])
    alone = {name: bench.release(record, setting) for name, record in bench.records.items()}
    scale = max(bench.natural_norms)
    for kind in (SOME, EVERY):
        worst, location, witness = 0.0, "", None
        for addition in additions(bench, setting, alone, pairs(bench, kind)):
            size = norm(alone[addition.record])
            if size == float("inf"):
                continue
            if _holds(addition.base, bench.records[addition.record]) and (
                distance(addition.total, addition.release) <= TOLERANCE * size
            ):
                continue  # a step that removes duplicates
            error = addition.rest / max(size, norm(addition.release), scale)
            if error > worst:
                worst, location = error, addition.location
                witness = bench.witness(addition.base, addition.neighbour, setting)
        if worst <= CLEAR * TOLERANCE:
            break
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


PLUGIN = Additivity
