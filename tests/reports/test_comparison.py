"""`audit diff`: what counts as a regression."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from audit.core.claims import Outcome
from audit.core.results import AuditReport, MechanismResult
from reports.diff import Weight, changes, is_worse
from tests.reports import sample


def _with(report: AuditReport, **fields: Any) -> AuditReport:
    """The report with the DP mechanism changed."""
    plain, dp = report.mechanisms
    return replace(report, mechanisms=(plain, replace(dp, **fields)))


def _dp() -> MechanismResult:
    return sample.run().mechanisms[1]


def test_a_report_does_not_differ_from_itself() -> None:
    for build in sample.ALL.values():
        assert changes(build(), build()) == ()


@pytest.mark.parametrize("outcome", [Outcome.VIOLATED, Outcome.INVALID, Outcome.OUT_OF_REACH])
def test_a_graver_outcome_is_worse_and_back_is_not(outcome: Outcome) -> None:
    good, bad = sample.run(), _with(sample.run(), outcome=outcome)
    assert [one.weight for one in changes(good, bad)] == [Weight.WORSE]
    assert [one.weight for one in changes(bad, good)] == [Weight.OTHER]


@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_one_accountant_on_one_mechanism_may_not_move(factor: float) -> None:
    moved = tuple(replace(claim, epsilon=claim.epsilon * factor) for claim in _dp().claims[:1])
    found = changes(sample.run(), _with(sample.run(), claims=(*moved, *_dp().claims[1:])))
    assert [one.weight for one in found] == [Weight.WORSE]
    assert "dp-accounting PLD claimed 8.00" in found[0].text


def test_a_new_version_of_an_accountant_is_the_same_accountant() -> None:
    newer = tuple(replace(claim, source=claim.source.replace("0.6.0", "0.7.0")) for claim in _dp().claims)
    assert changes(sample.run(), _with(sample.run(), claims=newer)) == ()


def test_what_is_gone_is_a_regression() -> None:
    base = sample.run()
    game = _dp().games[0]
    fewer = replace(game, attacks=game.attacks[:1])
    for edited in (
        replace(base, mechanisms=base.mechanisms[1:]),
        _with(base, games=_dp().games[:1]),
        _with(base, games=(fewer, _dp().games[1])),
        _with(base, claims=_dp().claims[:1]),
        _with(base, utility=_dp().utility[:1]),
        replace(base, policy=base.policy[:1]),
    ):
        found = changes(base, edited)
        assert Weight.GONE in {one.weight for one in found} and Weight.WORSE not in {one.weight for one in found}, found
        assert is_worse(found)


def test_intervals_that_do_not_meet_are_worse() -> None:
    base = sample.run()
    game = _dp().games[0]
    leaky = sample.black_box(21, 2.5, 8.0, 0.412)
    found = changes(base, _with(base, games=(leaky, _dp().games[1])))
    assert {one.subject for one in found} == {f"dp_sgd.{game.name}.loss", f"dp_sgd.{game.name}.lira"}
    assert is_worse(found) and any("AUC" in one.text for one in found) and any("TPR" in one.text for one in found)


def test_another_delta_cannot_be_compared() -> None:
    assert is_worse(changes(sample.run(), replace(sample.run(), delta=1e-6)))
