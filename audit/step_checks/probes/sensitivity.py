"""Adding a record moves the release by at most C, replacing one by at most 2 C."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product

from audit.step_checks.batches import NON_FINITE, Batch, fill, has_floats, join, records_by_label, rows
from audit.step_checks.findings import Finding, PropertyStatus, Witness, finding, gap, pass_finding
from audit.step_checks.step_under_test import LEAST_LARGE, UNREPEATABLE, StepUnderTest
from audit.step_checks.steps import Setting
from audit.step_checks.tensors import Tensors, distance

FIX = "clip the gradient of each record over all parameters together to C before summing; nothing may depend on other records"
SMALLEST_CLIP = 1e-8  # the smallest clip norm, of an ordinary norm
CLIPPED_REST = 1e-2  # what is left of an ordinary norm that is clipped
FIX_NON_FINITE = "replace a gradient whose norm is not finite by zero before it enters the sum"


@dataclass(frozen=True, slots=True)
class _Worst:
    """The case with the largest ratio so far of a distance of two releases, net of rounding, to what is allowed."""

    ratio: float = 0.0  # 0 if no case exceeded rounding
    distance: float = 0.0
    allowed: float = 0.0
    location: str = ""  # record, place, batch and clip norm, in words
    witness: Witness | None = None

    def against(self, excess: float, limit: float, location: str, witness: Witness) -> _Worst:
        """Return the case with the larger ratio: this one, or that of a distance `excess`, net of rounding, to its `limit`."""
        ratio = excess / limit
        return _Worst(ratio, excess, limit, location, witness) if ratio > self.ratio else self

    def judge(self, check: str, message: str, fix: str) -> Finding:
        """Return the finding: a failure above the limit."""
        return finding(
            check, self.ratio <= 1, message, fix=fix, witness=self.witness, measurement=self.distance, claim=self.allowed
        )


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Crafted neighbours at noise 0: the claimed clip norm, and clip norms at which records are clipped."""

    def run(self, bench: StepUnderTest) -> list[Finding]:
        """Return the findings on adding, on replacing, on inputs that are not finite, and on whether a record was clipped."""
        if not bench.repeatable:
            return [gap(check, UNREPEATABLE) for check in ("clip.add", "clip.replace", "clip.non_finite", "clip.reached")]
        settings = [bench.quiet(clip=clip) for clip in bench.clips()]
        add_worst, replace_worst = _Worst(), _Worst()
        for setting in settings:
            add_worst, replace_worst = _neighbours(bench, setting, add_worst, replace_worst)
        for setting in settings[:2]:
            add_worst = _large_batch(bench, setting, _each_label(bench, setting, add_worst))
        add_worst = _long_gradients(bench, add_worst)
        return [
            _neighbour_ratio("clip.add", "Adding one record", add_worst),
            _neighbour_ratio("clip.replace", "Replacing one record", replace_worst),
            _non_finite(bench, settings),
            _reach(bench),
        ]


def _neighbours(bench: StepUnderTest, setting: Setting, add_worst: _Worst, replace_worst: _Worst) -> tuple[_Worst, _Worst]:
    """Return the worst cases of adding and of replacing over all bases, records and positions; every batch is released once."""
    for base_name, base in bench.bases():
        release, slack = bench.release(base, setting), bench.tolerance(setting, base)
        last: dict[str, tuple[Batch, Tensors]] = {}
        for name, record in bench.records.items():
            for position, batch in bench.additions(base, record):
                neighbour_release = bench.release(batch, setting)
                location = f"{name} record put {position} to {base_name}, C = {setting.clip_norm:.3g}"
                excess = distance(neighbour_release, release) - slack
                add_worst = add_worst.against(excess, setting.clip_norm, location, bench.witness(base, batch, setting))
                last.setdefault(name, (batch, neighbour_release))
        for (first, (first_batch, first_release)), (second, (second_batch, second_release)) in combinations(last.items(), 2):
            location = f"{first} record for {second} beside {base_name}, C = {setting.clip_norm:.3g}"
            excess = distance(first_release, second_release) - slack
            witness = bench.witness(first_batch, second_batch, setting)
            replace_worst = replace_worst.against(excess, 2 * setting.clip_norm, location, witness)
    return add_worst, replace_worst


def _each_label(bench: StepUnderTest, setting: Setting, worst: _Worst) -> _Worst:
    """Return the worst case over records of every label, each added to a single record: a clip may leave out one class."""
    base = rows(bench.sample, [1])
    return _additions(bench, setting, ("one record", base), records_by_label(bench.sample), worst)


def _large_batch(bench: StepUnderTest, setting: Setting, worst: _Worst) -> _Worst:
    """Return the worst case of adding to batches of the expected size and larger: a step in pieces may end after the first."""
    records = {name: bench.records[name] for name in ("ordinary", "opposed")}
    for count in sorted({max(LEAST_LARGE, size) for size in bench.batch_sizes[-2:]}):
        worst = _additions(bench, setting, (f"{count} records", bench.of_size(count)), records, worst)
    return worst


def _long_gradients(bench: StepUnderTest, worst: _Worst) -> _Worst:
    """Return the worst case of gradients 1e8 times as long as the clip norm: a clip may end at a norm taken for an error."""
    if not bench.adjusts("clip_norm"):
        return worst
    middle = bench.natural_norms[len(bench.natural_norms) // 2]
    setting, base = bench.quiet(clip=SMALLEST_CLIP * middle), rows(bench.sample, [1])
    case = _additions(bench, setting, ("one record", base), bench.records, _Worst())
    return case if case.distance > CLIPPED_REST * middle and case.ratio > worst.ratio else worst


def _additions(
    bench: StepUnderTest, setting: Setting, named_base: tuple[str, Batch], records: Mapping[str, Batch], worst: _Worst
) -> _Worst:
    """Return the worst case over records that are added to one batch, given with its name."""
    base_name, base = named_base
    release, slack = bench.release(base, setting), bench.tolerance(setting, base)
    for name, record in records.items():
        for position, batch in bench.additions(base, record):
            location = f"{name} record put {position} to {base_name}, C = {setting.clip_norm:.3g}"
            excess = distance(bench.release(batch, setting), release) - slack
            worst = worst.against(excess, setting.clip_norm, location, bench.witness(base, batch, setting))
    return worst


def _neighbour_ratio(check: str, action: str, worst: _Worst) -> Finding:
    message = f"{action} moves the release by {worst.distance:.4g} where {worst.allowed:.4g} is allowed ({worst.location})"
    return worst.judge(check, message, FIX)


def _non_finite(bench: StepUnderTest, settings: list[Setting]) -> Finding:
    """Return a weakness if infinite, NaN or huge inputs make the release infinite or NaN, a failure if they move it too far.

    Every library lets infinite gradients pass its clip, and bounds on inputs exclude them; an unclipped finite gradient is a
    defect. Records without floating-point numbers are a gap.
    """
    check = "clip.non_finite"
    if not has_floats(bench.sample):
        return gap(check, "the records hold no floating-point numbers; infinite and NaN inputs cannot be made")
    worst, infinite = _Worst(), _Worst()
    for setting, (base_name, base) in product(settings[:2], bench.bases()):
        release, slack = bench.release(base, setting), bench.tolerance(setting, base)
        for value in NON_FINITE:
            neighbour = join(base, fill(bench.records["ordinary"], value))
            if bench.refusal(neighbour):
                continue
            excess = distance(bench.release(neighbour, setting), release) - slack
            location = f"a record of {value} beside {base_name}"
            case = (excess, setting.clip_norm, location, bench.witness(base, neighbour, setting))
            if math.isinf(excess):
                infinite = infinite.against(*case)
            else:
                worst = worst.against(*case)
    if worst.ratio <= 1 < infinite.ratio:
        return Finding(
            check=check,
            status=PropertyStatus.WEAKNESS,
            message=f"A record of infinite, NaN or huge inputs makes the release infinite or NaN ({infinite.location})",
            measured=math.inf,
            claimed=infinite.allowed,
            fix=FIX_NON_FINITE,
            witness=infinite.witness,
        )
    message = (
        f"A record of infinite, NaN or huge inputs moves the release by {worst.distance:.4g} ({worst.location or 'nowhere'})"
    )
    return worst.judge(check, message, FIX_NON_FINITE)


def _reach(bench: StepUnderTest) -> Finding:
    """Return the finding on whether some record was clipped: a clip norm that no record reaches is not tested."""
    check = "clip.reached"
    largest = max(bench.single(record, bench.quiet()) for record in bench.records.values())
    share = largest / bench.claimed.clip_norm
    if bench.adjusts("clip_norm") or share >= 0.99:
        reason = (
            "a record reaches the claimed clip norm" if share >= 0.99 else "the step was given clip norms that records reach"
        )
        refused = f"; the step refuses these records: {', '.join(bench.refused_records)}" if bench.refused_records else ""
        message = f"Clipping was tried: {reason}{refused}"
        return pass_finding(check, message, share, 1.0)
    return gap(
        check,
        f"No crafted record was clipped: the largest release is {share:.3g} of C and the step takes no other clip_norm; "
        "let the step take clip_norm, or give records with larger gradients",
    )


PLUGIN = Sensitivity
