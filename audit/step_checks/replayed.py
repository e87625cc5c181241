"""One step on a batch and on its neighbour, with the same noisy releases handed back: what a record moves, exactly.

The noise that the step draws is followed from the sampler to what leaves the step (`audit.replays`). The loss of a pair of
batches is the mu of its Gaussian mechanism, to be compared with 1/sigma; whatever else is left must be equal to the last bit.
Steps with noise that cannot be followed are left to the probes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit.replays.recording import Schedule
from audit.step_checks.batches import Batch, join, records_by_label, rows
from audit.step_checks.findings import Finding, PropertyStatus, failure, gap, pass_finding
from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import FunctionStep, RescaledStep, Setting

LOSS, STATE = "replay.loss", "replay.state"
SLACK = 2e-3  # relative excess over 1/sigma that single precision may cause
EMPTY, FIRST = "empty", "first"
_LOOSE = 100.0  # times the claimed clip norm: few records are clipped at that
MOST_RECORDS = 256
MOST_LABELS = 4
NO_LABEL = -100
_FEW_SEEDS = "the noise is that of one of few seeds, and whoever tries them all knows it"
_FIXES = {
    "loss": "clip each record's whole gradient to C before the sum, and add noise of deviation sigma C to the sum, once",
    "noise": "draw fresh noise of a public deviation, for every coordinate, also in batches of another size",
    "state": "let what outlives the step depend on the noisy release alone: no buffer, statistic or divisor of the raw batch",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two batches and the setting that they are stepped at; the second has one record more."""

    name: str
    kind: str
    base: Batch
    neighbour: Batch
    setting: Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What a pair showed: its mu, or what speaks against it."""

    pair: _Pair
    mu: float
    reason: str = ""
    fix: str = "loss"
    differing: tuple[str, ...] = ()
    followed: bool = True


def replay_findings(bench: StepUnderTest) -> list[Finding]:
    """Return the findings of a step's replay on pairs of batches; none for a step with noise that another library draws."""
    step = bench.step.step if isinstance(bench.step, RescaledStep) else bench.step
    if bench.claimed.noise_multiplier == 0 or not _is_torch(step):
        return []
    from audit.step_checks.replayed_runs import StepRuns

    findings: list[Finding] = []
    # a step that works with its noisy sum may pass only if that is released as soon as it is there
    for schedule in (Schedule.LATE, Schedule.EARLY):
        outcomes = _replay(bench, StepRuns(step=step, seed=bench.seed, schedule=schedule))
        if not findings or all(finding.status is PropertyStatus.PASSED for finding in outcomes):
            findings = outcomes
        if not any(finding.check == LOSS and finding.status is PropertyStatus.FAILED for finding in findings):
            break
    return findings


def _replay(bench: StepUnderTest, runs: Any) -> list[Finding]:
    verdicts: list[_Verdict] = []
    try:
        for pair in _pairs(bench, verdicts):
            verdict = _judge(runs, pair)
            if not _took_effect(bench, verdict, verdicts):
                break
            verdicts.append(verdict)
            if verdict.mu == math.inf or not verdict.followed:
                break
    except Exception as error:  # noqa: BLE001  the user's own code may raise anything; the probes name what it does not take
        return [gap(LOSS, f"not replayed, because the step raised {type(error).__name__}: {str(error)[:200]}")]
    return _conclude(bench, verdicts)


def _is_torch(step: Any) -> bool:
    return not isinstance(step, FunctionStep) or all(hasattr(value, "detach") for value in step.params.values())


def _pairs(bench: StepUnderTest, verdicts: list[_Verdict]) -> Iterator[_Pair]:
    """Yield pairs: records that are clipped and such that are not, beside few and beside more than are expected.

    A second round has a clip norm that ordinary records exceed, as the first pairs' `verdicts` say.
    """
    size = min(max(int(1.5 * bench.claimed.divisor), 8), MOST_RECORDS)
    batch = rows(bench.sample, np.resize(np.arange(len(bench.sample[0])), size).tolist())
    eight, single = rows(bench.sample, slice(0, 8)), rows(bench.sample, [1])
    setting, text, kinds = bench.claimed, "", tuple(bench.records)
    for _ in range(2):  # pairs with one batch follow each other, and share its recorded run
        for kind in kinds:
            yield _pair(bench, kind, eight, setting, text)
        if setting is bench.claimed:
            name, record = "a record (scaled) put before 8", bench.records[kinds[-1]]
            yield _Pair(name=name, kind=FIRST, base=eight, neighbour=join(record, eight), setting=setting)
        yield _pair(bench, kinds[-1], single, setting, text)
        long = bench.records.get("opposed, scaled by 30")
        if setting is not bench.claimed and long is not None:  # long beside one that is not clipped
            name = f"an opposed record scaled by 30 beside 1{text}"
            yield _Pair(name=name, kind="opposed", base=single, neighbour=join(single, long), setting=setting)
            if not bench.refusal(faint := bench.scale(single, 0.4)):  # turns their sum around
                yield _pair(bench, "opposed", faint, setting, f" scaled by 0.4{text}")
        yield _pair(bench, kinds[-1], batch, setting, text)
        if setting is bench.claimed:
            yield from _lopsided_pairs(bench, size)
            if isinstance(bench.step, FunctionStep) and not bench.empty_error:  # models remember an empty batch
                record = bench.records["ordinary"]
                yield _Pair(name="a record beside none", kind=EMPTY, base=bench.empty, neighbour=record, setting=setting)
            if bench.adjusts("noise_multiplier"):
                yield _low_loss_pair(bench, bench.records[kinds[-1]] if long is None else long)
        if not bench.adjusts("clip_norm") or not 0 < verdicts[0].mu < math.inf:
            return
        if setting is not bench.claimed:
            break
        setting = bench.at(clip=0.3 * verdicts[0].mu * bench.claimed.noise_multiplier * bench.claimed.clip_norm)
        text, kinds = f", clip norm {setting.clip_norm:.3g}", ("ordinary", "opposed")
    loose = bench.at(clip=_LOOSE * bench.claimed.clip_norm)
    name, record = "a record beside 8 that are not clipped", bench.records["opposed"]
    yield _Pair(name=name, kind="not clipped", base=eight, neighbour=join(eight, record), setting=loose)
    norms = [bench.single(rows(bench.sample, [i]), replace(loose, noise_multiplier=0.0)) for i in range(8)]
    if bench.adjusts("noise_multiplier") and 0 < min(norms) < max(norms) < math.inf:  # it moves the middle of all norms
        small, large = (rows(bench.sample, [int(place)] * 12) for place in (np.argmin(norms), np.argmax(norms)))
        base, name = join(small, large), "one of the longest gradients beside 12 of them and 12 short ones"
        yield _Pair(
            name=name, kind="middle", base=base, neighbour=join(base, rows(large, [0])), setting=bench.at(clip=max(norms))
        )


def _low_loss_pair(bench: StepUnderTest, record: Batch) -> _Pair:
    """Return a record beside one that the model fits as well as it can: a step may end below a loss."""
    originals = [rows(bench.sample, [i]) for i in range(8)]
    candidates = [bench.scale(original, 30.0) for original in originals]
    if any(bench.refusal(row) for row in candidates):
        candidates = originals
    base = min(candidates, key=lambda row: bench.single(row, bench.quiet(clip=_LOOSE * bench.claimed.clip_norm)))
    name = "a record of a long gradient beside one that is fitted"
    return _Pair(name=name, kind="fitted", base=base, neighbour=join(base, record), setting=bench.claimed)


def _lopsided_pairs(bench: StepUnderTest, count: int) -> Iterator[_Pair]:
    """Yield batches of one label to which another comes, and of the fewest labels to which the most come (-100 is none).

    Among them are the worst pairs of losses that divide by a sum of the batch: of weights of classes, or of tokens.
    """
    labels = bench.sample[-1]
    if labels.ndim > 1 and labels.dtype.kind in "iu":
        order = np.argsort((labels != NO_LABEL).reshape(len(labels), -1).sum(1), kind="stable")
        records = [rows(bench.sample, [int(order[0])]), rows(bench.sample, [int(order[-1])])]
    else:
        records = list(records_by_label(bench.sample).values())[:MOST_LABELS]
    for first, second in zip(records, records[1:] + records[:1], strict=True) if len(records) > 1 else ():
        base = rows(second, [0] * count)
        name = f"a record with other labels beside {count} copies of one"
        yield _Pair(name=name, kind="other labels", base=base, neighbour=join(base, first), setting=bench.claimed)


def _took_effect(bench: StepUnderTest, verdict: _Verdict, before: list[_Verdict]) -> bool:
    """Return False if a record moves as much at another clip norm as at the claimed one, since that is read elsewhere."""
    clip = verdict.pair.setting.clip_norm
    if clip == bench.claimed.clip_norm or not 0 < verdict.mu < math.inf:
        return True
    target = before[0].mu * bench.claimed.clip_norm / clip
    return verdict.pair.kind != before[0].pair.kind or abs(verdict.mu - target) > 0.01 * target


def _pair(bench: StepUnderTest, kind: str, base: Batch, setting: Setting, text: str) -> _Pair:
    name = f"a record ({kind}) beside {len(base[0])}{text}"
    return _Pair(name=name, kind=kind, base=base, neighbour=join(base, bench.records[kind]), setting=setting)


def _judge(runs: Any, pair: _Pair) -> _Verdict:
    first = runs.record(pair.base, pair.setting)
    # a sum of 0 with noise is no other thing than noise; and a record put first has the mask of another one
    if (pair.kind == EMPTY and first.recording.releases) or (pair.kind == FIRST and first.recording.coins):
        return _Verdict(pair=pair, mu=0.0)
    if first.hidden or first.recording.gaps:
        return _judge_unfollowed(runs, pair, first)
    second = runs.replay(pair.neighbour, pair.setting, first)
    differing = first.differing(second)
    if runs.seeds_by_records(pair.base, pair.setting, first, second):
        reason = "the seed of the noise depends on the records"
        return _Verdict(pair=pair, mu=math.inf, reason=reason, fix="noise", differing=differing)
    if not first.recording.releases and not second.recording.releases:
        kind = "other than numbers of a constant seed " if runs.public_seeds else ""
        reason = f"no noise {kind}is added in a batch of {len(pair.base[0])}" if differing else ""
        return _Verdict(pair=pair, mu=math.inf if differing else 0.0, reason=reason, fix="noise")
    if second.recording.divergence:
        reason = f"what is released depends on the records: {second.recording.divergence}"
        return _Verdict(pair=pair, mu=math.inf, reason=reason, fix="noise")
    mu, reason = runs.loss(first, second)
    fix = "noise" if reason else "loss"
    return _Verdict(pair=pair, mu=mu, reason=reason, fix=fix, differing=differing, followed=not math.isnan(mu))


def _judge_unfollowed(runs: Any, pair: _Pair, first: Any) -> _Verdict:
    if first.hidden and runs.shows_few_seeds(pair.neighbour, pair.setting, first):
        return _Verdict(pair=pair, mu=math.inf, reason=_FEW_SEEDS, fix="noise")
    return _Verdict(pair=pair, mu=math.nan, reason=first.hidden or first.recording.gaps[0], followed=False)


def _conclude(bench: StepUnderTest, verdicts: list[_Verdict]) -> list[Finding]:
    claim = 1 / bench.claimed.noise_multiplier
    failure = next((verdict for verdict in verdicts if not verdict.followed), None)
    worst = max((verdict for verdict in verdicts if verdict.followed), key=lambda verdict: verdict.mu, default=None)
    findings = []
    if worst is not None and (failure is None or worst.mu > claim * (1 + SLACK)):
        findings.append(_loss(bench, worst, claim, len(verdicts)))
    if failure is not None:
        findings.append(gap(LOSS, f"the noise cannot be followed exactly: {failure.reason}; the probes sample it"))
    differing = next((verdict for verdict in verdicts if verdict.differing), None)
    if differing is not None:
        findings.append(_state(bench, differing))
    elif failure is None:
        findings.append(
            pass_finding(STATE, "Given the same releases, everything that outlives the step is equal to the last bit")
        )
    return findings


def _loss(bench: StepUnderTest, worst: _Verdict, claim: float, count: int) -> Finding:
    if worst.mu <= claim * (1 + SLACK):
        text = (
            f"Followed exactly, a record moves releases by mu {worst.mu:.4f} at most in {count} pairs; 1/sigma is {claim:.4f}"
        )
        return pass_finding(LOSS, text, worst.mu, claim)
    reason = worst.reason or f"{worst.pair.name} moves the releases by mu {worst.mu:.4g}, and 1/sigma is {claim:.4g}"
    if worst.mu == math.inf:
        reason = worst.reason or f"{worst.pair.name} moves something that no noise covers"
    return failure(
        LOSS,
        f"Followed exactly: {reason}",
        fix=_FIXES[worst.fix],
        witness=bench.witness(worst.pair.base, worst.pair.neighbour, worst.pair.setting),
        measurement=worst.mu,
        claim=claim,
    )


def _state(bench: StepUnderTest, verdict: _Verdict) -> Finding:
    sure = [name for name in verdict.differing if not name.startswith("attribute ")]
    names = ", ".join((sure or list(verdict.differing))[:4])
    if not sure:
        text = f"Given the same releases, {names} still tells of the records after the step; does it leave the training?"
        return Finding(check=STATE, status=PropertyStatus.QUESTION, message=text)
    return failure(
        STATE,
        f"Given the same releases, {names} still differs after the step, with {verdict.pair.name}",
        fix=_FIXES["state"],
        witness=bench.witness(verdict.pair.base, verdict.pair.neighbour, verdict.pair.setting),
    )
