"""What is void is called proven nowhere: tables, figures, findings, index, notebook, console, tracking, comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import reports
from audit.cli import output
from audit.core.claims import Outcome
from audit.core.lower_bounds import read_course, read_epsilon
from audit.core.results import AuditReport, MechanismResult
from audit.core.rounding import down
from reports import answer, diff, headline, tracking
from reports.figures import _bounds
from reports.findings import JudgementState, findings
from reports.pages import cover, without_claim
from reports.pages.document import sections, texts
from reports.tables import game as game_tables
from tests.reports import sample


def failed_control(report: AuditReport) -> AuditReport:
    """The report with nothing claimed and the negative control of its first attack failed."""
    result = report.mechanisms[0]
    game = result.games[0]
    attack = game.attacks[0]
    assert attack.control is not None
    control = replace(attack.control, false_alarms=attack.control.allowed + 1, passed=False)
    game = replace(game, attacks=(replace(attack, control=control), *game.attacks[1:]))
    games = tuple(row.type_bounds(void=True) for row in (game, *result.games[1:]))
    return replace(report, mechanisms=(replace(result, games=games),))


def unclaimed() -> AuditReport:
    return replace(sample.run(), mechanisms=(sample.non_private(),), outcome=None)


def _invalid() -> MechanismResult:
    return next(result for result in sample.run(Outcome.INVALID).mechanisms if result.outcome is Outcome.INVALID)


def test_the_table_of_a_void_game_heads_no_column_proven() -> None:
    result = _invalid()
    for game in (game for game in result.games if game.bounds):
        for void in (True, False):
            table = game_tables.bounds(game, void)
            titles = [column.title for column in table.columns]
            assert ("Proven ε" in titles) is not void and ("Void ε" in titles) is void
            assert table.caption.startswith("Void: a check of this audit failed" if void else "Proven ε of each attack")
    pages = [page for page in sections(sample.run(Outcome.INVALID)) if page.title.startswith(result.name)]
    assert not any(text.startswith("Proven ε of each") for page in pages for text in texts(page.blocks))


def test_the_cover_of_a_void_audit_shows_no_figure_as_its_proof() -> None:
    report = sample.run(Outcome.INVALID)
    head = headline.headline(report)
    assert head is not None
    (card,) = [number for number in cover.numbers(report, head) if number.label.startswith("Not proven")]
    assert card.value == "none" and not any(digit.isdigit() for digit in card.detail)


def test_no_finding_of_a_void_training_says_proven_or_holds_under_the_claim() -> None:
    report = sample.run(Outcome.INVALID)
    rows = [row for row in findings(report) if row.rule in ("AU001", "AU005") and row.subject.startswith(_invalid().name)]
    assert len(rows) > 3
    for row in rows:
        assert "proven" not in row.message and "void" in row.message
        assert not any("epsilon" in name and not name.startswith(("void", "claimed")) for name, _ in row.figures)
        assert row.rule == "AU001" or row.state is JudgementState.OPEN


def test_without_a_claim_a_failed_control_voids_the_bounds_as_well() -> None:
    sound, void = unclaimed(), failed_control(unclaimed())
    assert not sound.mechanisms[0].is_void and void.mechanisms[0].is_void and void.mechanisms[0].outcome is None
    assert "it proves ε ≥" in without_claim.sentence(sound, answer.answers(sound)[0])
    assert "proves" not in without_claim.sentence(void, answer.answers(void)[0]).replace("Nothing is proven", "")
    card = without_claim.numbers(void, answer.answers(void)[0])[2]
    assert card.label.startswith("Not proven") and card.value == "none"
    assert "void" in _bounds.overview(void).alt and "proven epsilon" not in _bounds.overview(void).alt


def test_console_notebook_tracking_and_comparison_call_it_void() -> None:
    report = sample.run(Outcome.INVALID)
    name = _invalid().name
    (line,) = [line for line in output.lines(report, Path("report")) if line.strip().startswith(f"{name}:")]
    assert "void, nothing is proven: the figure is" in line and "proven >=" not in line
    (numbers,) = [entry for entry in output.digest(report)["mechanisms"] if entry["name"] == name]
    bound = headline.free(_invalid())
    assert numbers["proven"] is None and bound is not None and numbers["void"]["void_epsilon"] == read_epsilon(bound.bound)
    metrics = tracking.metrics(report)
    assert f"{name}/epsilon_proven" not in metrics and metrics[f"{name}/epsilon_void"] == read_epsilon(bound.bound)
    assert "void: " in report._repr_html_() and "void: " not in sample.run()._repr_html_()
    texts_of_change = [change.text for change in diff.changes(sample.run(), report)]
    assert not any("proven" in text for text in texts_of_change)


def test_the_course_of_a_void_audit_is_called_void_at_its_own_end() -> None:
    result = next(row for row in sample.run(Outcome.INVALID).mechanisms if row.is_void and row.bound_trajectories)
    report = replace(sample.run(Outcome.INVALID), mechanisms=(result,))
    figure = reports.plot(report, _bounds.budget(report, result).name)
    ends = {down(read_course(curve)[-1]) for curve in result.bound_trajectories if read_course(curve)}
    written = [text.get_text() for axes in figure.axes for text in axes.texts if any(end in text.get_text() for end in ends)]
    assert ends and written and all("void" in text for text in written)
