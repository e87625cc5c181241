"""`audit diff`: what counts as a regression."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from audit.core.claims import Outcome
from audit.core.lower_bounds import read_ceiling, read_epsilon, report_trajectory
from audit.core.results import AuditReport, MechanismResult
from reports.diff import Weight, changes, is_worse
from reports.two_samples import LEVEL
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
    void = outcome is Outcome.INVALID
    games = tuple(game.type_bounds(void=void) for game in _dp().games)
    courses = tuple(report_trajectory(curve, None, void=void) for curve in _dp().bound_trajectories)
    changed = {"outcome": outcome, "games": games, "bound_trajectories": courses, "verdicts": () if void else _dp().verdicts}
    good, bad = sample.run(), _with(sample.run(), **changed)
    assert [item.weight for item in changes(good, bad)] == [Weight.WORSE]
    assert [item.weight for item in changes(bad, good)] == [Weight.OTHER]


@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_one_accountant_on_one_mechanism_may_not_move(factor: float) -> None:
    moved = tuple(replace(claim, epsilon=claim.epsilon * factor) for claim in _dp().claims[:1])
    result = changes(sample.run(), _with(sample.run(), claims=(*moved, *_dp().claims[1:])))
    assert [item.weight for item in result] == [Weight.WORSE]
    assert "dp-accounting PLD claimed 8.00" in result[0].text


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
        result = changes(base, edited)
        assert Weight.GONE in {item.weight for item in result} and Weight.WORSE not in {item.weight for item in result}, result
        assert is_worse(result)


def test_rates_that_rose_by_more_than_chance_are_worse() -> None:
    base = sample.run()
    game = _dp().games[0]
    leaky = sample.black_box(21, 2.5, 8.0, 0.412)
    result = changes(base, _with(base, games=(leaky, _dp().games[1])))
    assert {item.subject for item in result} == {f"dp_sgd.{game.name}.loss", f"dp_sgd.{game.name}.lira"}
    assert is_worse(result) and any("AUC" in item.text for item in result) and any("TPR" in item.text for item in result)
    assert all(item.p_value is not None and item.p_value <= LEVEL and "comparisons" in item.text for item in result)


def test_rates_that_fell_are_named_and_no_regression() -> None:
    base = sample.run()
    leaky = _with(base, games=(sample.black_box(21, 2.5, 8.0, 0.412), _dp().games[1]))
    result = changes(leaky, base)
    assert result and {item.weight for item in result} == {Weight.OTHER}


def test_differences_within_their_uncertainty_are_not_named() -> None:
    base = sample.run()
    again = sample.black_box(21, 0.58, 8.0, 0.412)
    before = sample.black_box(21, 0.55, 8.0, 0.412)
    games = [(game, _dp().games[1]) for game in (before, again)]
    assert before.attacks[0].auc != again.attacks[0].auc
    assert changes(_with(base, games=games[0]), _with(base, games=games[1])) == ()


def test_a_bound_stands_with_its_ceiling_and_is_no_regression_by_itself() -> None:
    game = _dp().games[1]
    raised = tuple(
        sample.replace_figures(bound, read_epsilon(bound) * 1.1, read_ceiling(bound)) for bound in game.attacks[0].bounds
    )
    edited = replace(game, attacks=(replace(game.attacks[0], bounds=raised), *game.attacks[1:]))
    result = changes(sample.run(), _with(sample.run(), games=(_dp().games[0], edited)))
    assert [item.weight for item in result] == [Weight.OTHER] and "ceiling" in result[0].text and not is_worse(result)


def test_utility_that_moved_by_more_than_the_spread_over_models_is_named() -> None:
    metric = _dp().utility[0]
    for step, named in ((metric.spread / 10, False), (6 * metric.spread, True)):
        moved = (replace(metric, value=metric.value - step), *_dp().utility[1:])
        result = changes(sample.run(), _with(sample.run(), utility=moved))
        assert bool(result) is named and all(item.weight is Weight.OTHER for item in result)


def test_another_delta_cannot_be_compared() -> None:
    assert is_worse(changes(sample.run(), replace(sample.run(), delta=1e-6)))
