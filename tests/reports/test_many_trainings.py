"""A report of many trainings says once what holds for all of them, and loses nothing."""

from __future__ import annotations

from dataclasses import replace

from audit.core.claims import Outcome
from audit.core.results import AuditReport
from reports import headline
from reports.figures import _bounds
from reports.formats import figures
from reports.pages.blocks import Figure, Formula, Table
from reports.pages.document import sections
from reports.pages.terms import texts
from reports.pages.training import MOST_APART, shared_checks
from tests.reports import sample


def many(count: int) -> AuditReport:
    """A report of `count` claimed trainings that differ in one check."""
    base = sample.run()
    plain, dp = base.mechanisms
    copies = tuple(
        replace(
            dp,
            name=f"party_{number}",
            bound_trajectories=(),
            checks=(replace(dp.checks[0], value=f"{number} of their own"), *dp.checks[1:]),
        )
        for number in range(count)
    )
    return replace(base, mechanisms=(plain, *copies))


def test_what_holds_for_all_is_said_once_and_nothing_is_lost() -> None:
    report = many(MOST_APART + 1)
    pages = sections(report)
    blocks = [block for page in pages for block in page.blocks]
    full = list(texts(tuple(blocks)))
    assert sum(isinstance(block, Formula) for block in blocks) == 1
    common = shared_checks(report)
    assert common == report.mechanisms[1].checks[1:]
    rows = [row for block in blocks if isinstance(block, Table) for row in block.rows]
    for check in common:
        assert sum(row[:2] == (check.item, check.value) for row in rows) == 1 + sum(
            check in result.checks for result in report.mechanisms if not result.claims
        )
    assert all(f"{number} of their own" in full for number in range(MOST_APART + 1))
    assert not any(isinstance(block, Figure) and block.name.startswith("budget.") for block in blocks)
    budgets = next(block for block in blocks if isinstance(block, Table) and block.caption.startswith("Budgets"))
    assert len(budgets.rows) == sum(len(result.trajectories) for result in report.mechanisms)


def test_few_trainings_have_tables_of_their_own() -> None:
    blocks = [block for page in sections(many(MOST_APART)) for block in page.blocks]
    assert shared_checks(many(MOST_APART)) == ()
    assert any(isinstance(block, Figure) and block.name.startswith("budget.") for block in blocks)


def test_the_first_drawing_shows_the_gravest_trainings_and_says_how_many_there_are() -> None:
    report = many(9)
    gravest = replace(report.mechanisms[7], outcome=Outcome.VIOLATED)
    report = replace(report, mechanisms=(*report.mechanisms[:7], gravest, *report.mechanisms[8:]))
    plan = figures.planned(report)["overview"]
    assert plan.height_mm < 60 and f"{_bounds.MOST_TRAININGS} of 10 trainings" in plan.caption
    assert gravest.name in plan.alt and plan.alt.count("party_") == _bounds.MOST_TRAININGS
    assert "of 10 trainings" not in figures.planned(sample.run())["overview"].caption


def test_utility_of_many_trainings_fits_on_a_page_and_parties_of_one_training_share_a_line() -> None:
    plan = figures.planned(many(40))["utility"]
    assert plan.height_mm < 200 and "figures; the table has every one" in plan.caption
    base = sample.run()
    seen_by_two = tuple(replace(base.mechanisms[1], name=name, training="dp") for name in ("dp (server)", "dp (public)"))
    assert [name for name, _ in headline.utility(replace(base, mechanisms=seen_by_two))] == ["dp"]
    apart = (seen_by_two[0], replace(seen_by_two[1], utility=base.mechanisms[0].utility))
    assert [name for name, _ in headline.utility(replace(base, mechanisms=apart))] == ["dp", "dp (public)"]
