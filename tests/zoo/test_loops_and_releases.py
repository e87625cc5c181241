"""Loops and releases of the zoo: each wrong one fails by the check that names its defect, a correct twin by none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from audit import plugins
from audit.step_checks.findings import PropertyStatus
from audit.zoo import _loops, _releases, _survey
from tests.marks import slow

PLAN = _survey.LOOP_PLAN
LOOP_CHECKS = {
    "batch_used_twice": {"loop.sampling"},
    "drop_last": {"loop.sampling"},
    "poisson": set(),
    "rate_rounded_down": {"loop.sampling"},
    "rate_rounded_up": set(),
    "same_batches": {"loop.sampling"},
    "shuffled_batches": {"loop.sampling"},
    "steps_per_epoch": {"loop.steps"},
}
RELEASE_CHECKS = {
    "adjacency_of_removal": "mechanism.fit",
    "early_stopping": "mechanism.epsilon",
    "early_stopping_in_public": None,
    "gaussian_analytic": None,
    "gaussian_classic_at_2": None,
    "gaussian_classic_beyond": "mechanism.fit",
    "gaussian_inverted": "mechanism.epsilon",
    "same_seed_every_run": "mechanism.epsilon",
    "schedule_from_data": "mechanism.epsilon",
    "search_counted_in_epochs": "mechanism.epsilon",
    "tuning_composed": None,
    "tuning_not_composed": "mechanism.epsilon",
}
QUICK = ("adjacency_of_removal", "same_seed_every_run", "tuning_composed")


def loop(name: str) -> _loops.Loop:
    return plugins.find(_survey.LOOPS, name)()


def release(name: str) -> Any:
    return plugins.find(_survey.RELEASES, name)()


def test_every_entry_is_listed() -> None:
    assert set(LOOP_CHECKS) == set(plugins.names(_survey.LOOPS))
    assert set(RELEASE_CHECKS) == set(plugins.names(_survey.RELEASES))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LOOP_CHECKS)
def test_a_loop_fails_by_its_check(name: str) -> None:
    entry = loop(name)
    findings = _loops.observe(entry, PLAN).check(sample_rate=entry.accounted_rate(PLAN), steps=entry.accounted_steps(PLAN))
    assert {finding.check for finding in findings if finding.status is PropertyStatus.FAILED} == LOOP_CHECKS[name]
    assert bool(LOOP_CHECKS[name]) is bool(entry.wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOP_CHECKS)
def test_a_loop_is_worth_more_than_its_claim_where_it_is_wrong(name: str) -> None:
    entry = loop(name)
    claim, (low, high) = _loops.claim(entry, PLAN), entry.truth(PLAN)
    assert low <= high
    assert low > claim if entry.wrong else high <= claim


def test_shuffled_batches_are_the_mechanism_whose_bracket_is_given() -> None:
    """Each record takes part once an epoch, in batches of one size."""
    entry = loop("shuffled_batches")
    known, _ = entry.spent(PLAN)
    epochs = known.count
    count = PLAN.steps // epochs
    batches = entry.batches(PLAN, np.random.default_rng(0))
    assert len(batches) == count * epochs == PLAN.steps
    for epoch in range(epochs):
        epoch_batches = batches[epoch * count : (epoch + 1) * count]
        assert sorted(record for batch in epoch_batches for record in batch) == list(range(PLAN.records))
        assert {len(batch) for batch in epoch_batches} == {PLAN.records // count}


@pytest.mark.parametrize("name", slow(RELEASE_CHECKS, set(RELEASE_CHECKS) - set(QUICK)))
def test_a_release_fails_by_its_check(name: str) -> None:
    entry = release(name)
    failures = _releases.failures(entry, _releases.audit_release(entry))
    expected = RELEASE_CHECKS[name]
    assert expected in failures if expected else failures == ()
    assert (expected is not None) is bool(entry.wrong)
    low, high = entry.exact()
    assert low <= high and (low > entry.epsilon) is bool(entry.wrong)


def test_the_best_of_several_runs_costs_what_all_of_them_cost() -> None:
    """The ratio of the chances that all scores stay low below both sums is that of all runs."""
    entry = release("tuning_not_composed")
    stream = np.random.default_rng(0)
    counts = [int((entry(data, stream, 400_000) < 0).sum()) for data in (np.array([0.0]), np.array([1.0]))]
    assert counts[1] > 0
    assert math.log(counts[0] / counts[1]) == pytest.approx(entry.exact()[0], abs=0.4)
