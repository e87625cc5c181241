"""The zoo by replay alone: each wrong entry is refuted, or the reason says why no replay of its noise can."""

from __future__ import annotations

import numpy as np
import pytest

import audit
from audit.replays.check import ReplayVerdict
from audit.step_checks.findings import PropertyStatus
from audit.step_checks.replayed import replay_findings
from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import FunctionStep, Setting
from audit.zoo import loops, releases, steps
from audit.zoo._reference import small_parameters

LAW = "noise of no known law: the probes sample it"
NOT_FOLLOWED = {
    "noise_clamped": LAW,
    "noise_same_tensor": "numbers of one state of a generator by two algorithms",
    "noise_truncated": LAW,
    "noise_uniform": LAW,
}
LEFT_OPEN = {
    "clip_half_precision": "wrong for a gradient that is no finite number: a probe's record",
    "clip_non_finite": "wrong for a gradient that is no finite number: a probe's record",
    "noise_half_precision": "the law is right, and its digits are coarse",
    "early_stopping": "what is returned is less than what is compared: sampling decides",
    "tuning_not_composed": "what is returned is less than what is compared: sampling decides",
}


def _step_statuses(name: str) -> set[PropertyStatus]:
    stream = np.random.default_rng(0)
    sample = (stream.normal(size=(16, 6)).astype(np.float32), stream.integers(3, size=16))
    step = FunctionStep(function=steps.PLUGINS[name](), params=small_parameters())
    setting = Setting(noise_multiplier=2.0, clip_norm=2.0, divisor=16.0)
    return {finding.status for finding in replay_findings(StepUnderTest(step=step, sample=sample, claimed=setting))}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(steps.PLUGINS))
def test_a_wrong_step_is_refuted_by_its_replay(name: str) -> None:
    statuses = _step_statuses(name)
    if name in NOT_FOLLOWED:
        assert statuses == {PropertyStatus.GAP}
    else:
        assert (PropertyStatus.FAILED in statuses) == (bool(steps.PLUGINS[name].wrong) and name not in LEFT_OPEN)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(releases.PLUGINS))
def test_a_wrong_release_is_refuted_by_its_replay(name: str) -> None:
    release = releases.PLUGINS[name]()
    pair = np.array(release.data), np.array(release.neighbour)
    claim = {"epsilon": release.epsilon, "delta": release.delta}
    verdict = audit.replay(lambda d, rng: release(d, rng, 1), [pair], sampling_seconds=0, **claim).verdict
    if not release.wrong:
        assert verdict is ReplayVerdict.PROVED
    else:
        assert verdict is (ReplayVerdict.BOUND if name in LEFT_OPEN else ReplayVerdict.REFUTED)
    if name in LEFT_OPEN:
        report = audit.replay(lambda d, rng: release(d, rng, 1), [pair], **claim)
        assert report.verdict is ReplayVerdict.REFUTED and report.worst.method == "sampling", str(report)


def test_most_of_the_zoo_is_found_by_replay_alone() -> None:
    wrong = {name for table in (steps.PLUGINS, releases.PLUGINS) for name, entry in table.items() if entry.wrong}
    loops_by_record = [name for name, loop in loops.PLUGINS.items() if loop.wrong]  # wrong in the batches, not in the noise
    assert LEFT_OPEN.keys() | NOT_FOLLOWED.keys() <= wrong
    assert len(wrong - LEFT_OPEN.keys() - NOT_FOLLOWED.keys()) == 37
    assert len(wrong) + len(loops_by_record) == 52
