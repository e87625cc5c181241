"""Adding a record moves the release by at most C; replacing one is taking one away and adding another."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import product

from audit.step_checks.batches import NON_FINITE, Batch, fill, has_floats, join, records_by_label, rows
from audit.step_checks.findings import Finding, PropertyStatus, Witness, finding, gap, pass_finding
from audit.step_checks.probes._shares import FEW, SOME, shares
from audit.step_checks.step_under_test import LEAST_LARGE, UNREPEATABLE, StepUnderTest
from audit.step_checks.steps import Setting
from audit.step_checks.tensors import Tensors, distance, norm

FIX = "clip the gradient of each record over all parameters together to C before summing; nothing may depend on other records"
SMALLEST_CLIP = 1e-8  # the smallest clip norm, of an ordinary norm
CLIPPED_REST = 1e-2  # what is left of an ordinary norm that is clipped
BASES_OF_SUMS = ("no record", "eight records")  # enough where records do not act on each other
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
        """Return the findings on adding, on inputs that are not finite, and on whether a record was clipped."""
        if not bench.repeatable:
            return [gap(check, UNREPEATABLE) for check in ("clip.add", "clip.non_finite", "clip.reached")]
        settings = [bench.quiet(clip=clip) for clip in bench.clips()]
        worst = _Worst()
        sums: set[Setting] = set()  # settings at which the release is a sum of what records release alone
        for i, setting in enumerate(settings):
            alone = shares(bench, setting, SOME if i < 2 else FEW)
            if alone is None:
                for named_base in bench.bases():
                    worst = _additions(bench, setting, named_base, bench.records, worst, alternate=False)
            else:
                sums.add(setting)
                worst = _single_records(bench, setting, alone, worst)
        for setting in settings[:2]:
            worst = _each_label(bench, setting, worst, alternate=setting in sums)
            worst = _large_batch(bench, setting, worst, alternate=setting in sums)
        worst = _long_gradients(bench, worst, alternate=set(settings) == sums)
        message = (
            f"Adding one record moves the release by {worst.distance:.4g} where {worst.allowed:.4g} is allowed "
            f"({worst.location})"
        )
        return [worst.judge("clip.add", message, FIX), _non_finite(bench, settings[:2], sums), _reach(bench)]


def _single_records(bench: StepUnderTest, setting: Setting, alone: dict[str, Tensors], worst: _Worst) -> _Worst:
    """Return the worst case of adding if records add what they release alone."""
    slack = bench.tolerance(setting, bench.empty)
    for name, release in alone.items():
        location, record = f"{name} record, C = {setting.clip_norm:.3g}", bench.records[name]
        # a call that is refused shows nothing
        witness = bench.witness(record if bench.empty_error else bench.empty, None if bench.empty_error else record, setting)
        worst = worst.against(norm(release) - slack, setting.clip_norm, location, witness)
    return worst


def _each_label(bench: StepUnderTest, setting: Setting, worst: _Worst, *, alternate: bool) -> _Worst:
    """Return the worst case over records of every label, each added to a single record: a clip may leave out one class."""
    base = rows(bench.sample, [1])
    return _additions(bench, setting, ("one record", base), records_by_label(bench.sample), worst, alternate=alternate)


def _large_batch(bench: StepUnderTest, setting: Setting, worst: _Worst, *, alternate: bool) -> _Worst:
    """Return the worst case of adding to batches of the expected size and larger: a step in pieces may end after the first."""
    records = {name: bench.records[name] for name in ("ordinary", "opposed")}
    for count in sorted({max(LEAST_LARGE, size) for size in bench.batch_sizes[-2:]}):
        worst = _additions(bench, setting, (f"{count} records", bench.of_size(count)), records, worst, alternate=alternate)
    return worst


def _long_gradients(bench: StepUnderTest, worst: _Worst, *, alternate: bool) -> _Worst:
    """Return the worst case of gradients 1e8 times as long as the clip norm: a clip may end at a norm taken for an error."""
    if not bench.adjusts("clip_norm"):
        return worst
    middle = bench.natural_norms[len(bench.natural_norms) // 2]
    setting, base = bench.quiet(clip=SMALLEST_CLIP * middle), rows(bench.sample, [1])
    case = _additions(bench, setting, ("one record", base), bench.records, _Worst(), alternate=alternate)
    return case if case.distance > CLIPPED_REST * middle and case.ratio > worst.ratio else worst


def _additions(
    bench: StepUnderTest,
    setting: Setting,
    named_base: tuple[str, Batch],
    records: Mapping[str, Batch],
    worst: _Worst,
    *,
    alternate: bool,
) -> _Worst:
    """Return the worst case over records that are added to one named batch, in one position each if `alternate`."""
    base_name, base = named_base
    release, slack = bench.release(base, setting), bench.tolerance(setting, base)
    for i, (name, record) in enumerate(records.items()):
        places = list(bench.additions(base, record))
        for position, batch in [places[i % len(places)]] if alternate else places:
            location = f"{name} record put {position} to {base_name}, C = {setting.clip_norm:.3g}"
            excess = distance(bench.release(batch, setting), release) - slack
            worst = worst.against(excess, setting.clip_norm, location, bench.witness(base, batch, setting))
    return worst


def _non_finite(bench: StepUnderTest, settings: list[Setting], sums: Collection[Setting]) -> Finding:
    """Return a weakness if infinite, NaN or huge inputs make the release infinite or NaN, a failure if they move it too far.

    Every library lets infinite gradients pass its clip, and bounds on inputs exclude them; an unclipped finite gradient is a
    defect. Records without floating-point numbers are a gap.
    """
    check = "clip.non_finite"
    if not has_floats(bench.sample):
        return gap(check, "the records hold no floating-point numbers; infinite and NaN inputs cannot be made")
    worst, infinite, eight = _Worst(), _Worst(), rows(bench.sample, slice(0, 8))
    records = {value: fill(bench.records["ordinary"], value) for value in NON_FINITE}
    records = {value: record for value, record in records.items() if not bench.refusal(join(eight, record))}
    for setting, (base_name, base) in product(settings, bench.bases()):
        if setting in sums and base_name not in BASES_OF_SUMS:
            continue
        release, slack = bench.release(base, setting), bench.tolerance(setting, base)
        for value, record in records.items():
            neighbour = join(base, record)
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
