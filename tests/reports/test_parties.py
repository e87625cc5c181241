"""The page on who can learn what: every party of every training, in the table, in the figure and in both languages."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

import reports
from audit.core.access import Access
from audit.core.claims import Estimate
from audit.core.results import AuditReport, MechanismResult
from reports import parties
from reports.figures import _parties, _plots
from reports.formats import figures
from reports.pages.blocks import Figure, Mono, Table
from reports.pages.cover import picture
from reports.pages.document import RULES, section, sections, summary
from reports.tables.report import parties as table
from reports.words.language import say, speaking
from tests.reports import sample

ACCESSES = (Access.EACH_UPDATE, Access.SECURE_SUM, Access.RELEASED_MODELS, Access.FINAL_WEIGHTS)


def view_as(result: MechanismResult, training: str, access: Access) -> MechanismResult:
    """The result as one party of a training has it, by its first game alone, with an estimate."""
    game = result.games[-1]
    estimate = Estimate(epsilon=3.25, delta=1e-5, estimator="two_gaussians", warning="two normal laws")
    attacks = tuple(replace(attack, estimates=(estimate,)) for attack in game.attacks)
    game_seen = replace(game, game=replace(game.game, access=access), attacks=attacks)
    return replace(result, name=f"{training} ({access.words})", training=training, games=(game_seen,))


@pytest.fixture(scope="module")
def report() -> AuditReport:
    base = sample.run()
    plain, noisy = base.mechanisms
    results = [view_as(result, name, access) for name, result in (("bare", plain), ("central", noisy)) for access in ACCESSES]
    return replace(base, mechanisms=tuple(results))


def test_every_training_and_party_has_a_row_with_claim_proof_ceiling_and_estimate(report: AuditReport) -> None:
    results = parties.of_report(report)
    rows = table(results, report.delta).rows
    assert [row[0] for row in rows] == [Mono("bare")] * 4 + [Mono("central")] * 4
    assert [row[2] for row in rows[:4]] == ["each update", "secure sums", "all released models", "final weights"]
    assert {row[3] for row in rows[:4]} == {"none"}
    best = max(bound.epsilon for bound in report.mechanisms[4].bounds if bound.family is None)
    assert rows[4][3] == f"{min(claim.epsilon for claim in report.mechanisms[4].claims):.2f}"
    assert str(rows[4][4]).startswith(f"{int(best * 100) / 100:.2f} of ")
    assert "DP-SGD" in str(rows[4][5]) and rows[4][6] == "3.25"


def test_claims_about_clients_are_introduced_as_such(report: AuditReport) -> None:
    """One record is another unit than one client, and a claim about the latter says nothing about the former."""
    about_clients = [
        replace(result, claims=tuple(replace(claim, unit="client") for claim in result.claims)) for result in report.mechanisms
    ]
    assert "one record changes" in str(summary(report)) and "one client, with all" not in str(summary(report))
    clients = str(summary(replace(report, mechanisms=tuple(about_clients))))
    assert "one client, with all that it holds and sends, changes" in clients and "one record changes" not in clients


def test_the_figure_says_every_cell_and_can_be_drawn(report: AuditReport) -> None:
    plan = figures.planned(report)["parties"]
    assert all(f"{name}, " in plan.alt for name in ("bare", "central"))
    assert plan.alt.count("proven epsilon") == 8 and plan.alt.count("no claim") == 4
    assert parties.accesses(parties.of_report(report)) == ACCESSES
    assert b"claimed" in _plots.draw(plan.height_mm, plan.paint)[0]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_says_in_plain_words_who_is_protected_from_whom(report: AuditReport, language: str) -> None:
    with speaking(language):
        (page,) = section(report)
        words = [text for block in page.blocks for text in getattr(block, "items", ())]
        assert words == [say(f"party.{rule}") for rule in RULES]
        assert sum(isinstance(block, Table) for block in page.blocks) == 1


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_number_of_a_cell_covers_another(report: AuditReport, language: str, inside: bool) -> None:
    """Of one bound, and of one for any mechanism beside a larger one inside a family."""
    base = sample.run()
    chosen = [result for result in report.mechanisms if inside or result.training == "bare"]
    with speaking(language):
        figure = reports.plot(replace(base, mechanisms=tuple(chosen)), "parties")
    figure.canvas.draw()
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
        assert len(boxes) >= 2
        for one, two in itertools.combinations(boxes, 2):
            across, along = min(one.x1, two.x1) - max(one.x0, two.x0), min(one.y1, two.y1) - max(one.y0, two.y0)
            assert across <= 0 or along < 0.3 * one.height, "lines may touch where no letter has a descender"
        drawn = [patch.get_window_extent() for patch in axes.patches]
        drawn += [line.get_window_extent() for line in axes.lines if line.get_color() == _parties.CLAIM]
        assert not any(box.y1 > shape.y0 + 0.15 * box.height > box.y0 and box.x1 > shape.x0 for box in boxes for shape in drawn)
        assert all(text.get_fontsize() >= 7.5 for text in axes.texts)


def test_the_page_on_parties_leads_the_report_and_its_figure_the_first_page(report: AuditReport) -> None:
    pages = sections(report)
    assert [page.title for page in pages[:4]] == ["", say("party.title"), "", say("page.in_plain_words")]
    assert picture(report) == "parties" and picture(sample.run()) == "overview"
    drawn = [block.name for page in pages for block in page.blocks if isinstance(block, Figure)]
    assert drawn.count("parties") == 1
    several = tuple(replace(result, training=f"{result.training}{copy}") for copy in "abc" for result in report.mechanisms)
    assert picture(replace(report, mechanisms=several)) == "overview", (
        "a drawing of six trainings has no room on the first page"
    )


def test_a_report_of_trainings_that_are_the_same_to_all_has_no_such_page() -> None:
    assert section(sample.run()) == () and "parties" not in figures.planned(sample.run())
