"""Pages on what a mechanism costs, in a report and beside it: the same figures, from the report's own data."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import reports.costs
from audit.accounting import costs
from audit.accounting.costs import CHANGES, REPORT_DELTAS, with_costs
from audit.accounting.subjects import bracket, named
from audit.cli import report as commands
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.core.events import Event, Gaussian, dp_sgd
from audit.core.results import AuditReport
from reports.editions.external import external
from reports.figures import _costs
from reports.figures._plots import draw_figure, write_screen
from reports.formats.json import from_json, to_json
from reports.pages import costs as pages
from reports.pages.blocks import Paragraph, Table
from reports.pages.document import sections
from reports.words.language import down, power, speaking, up
from tests.reports import sample

pypdf = pytest.importorskip("pypdf", reason="reading PDFs needs the extra 'dev'")

CHEAP = dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=1.0, steps=4)


def audited(*events: Event) -> AuditReport:
    """The sample report with a claimed training of each event its own instead."""
    report = sample.run()
    claimed = next(result for result in report.mechanisms if result.claims)
    peers = tuple(result for result in report.mechanisms if not result.claims)
    trainings = (replace(claimed, name=f"training {place}", mechanism=event) for place, event in enumerate(events))
    return replace(report, mechanisms=(*peers, *trainings))


@cache
def priced() -> AuditReport:
    return with_costs(audited(CHEAP, CHEAP))


@pytest.mark.slow
def test_equal_mechanisms_share_a_sheet_and_others_than_claimed_have_none() -> None:
    (sheet,) = priced().costs
    assert sheet.trainings == ("training 0", "training 1") and sheet.delta == priced().delta
    assert (sheet.lower, sheet.upper) == bracket(CHEAP, sheet.delta, sheet.adjacency)[0]
    assert sheet.accountants[-1] == "reference" and len(sheet.claims) == len(sheet.accountants) > 2
    assert sheet.deltas == REPORT_DELTAS and len(sheet.curve) == len(REPORT_DELTAS)


@pytest.mark.slow
def test_what_leaves_the_range_of_the_mechanism_is_left_out() -> None:
    labels = [line.label for line in priced().costs[0].what_if]
    assert labels == [f"{quantity} {value}" for quantity, value in CHANGES if (quantity, value) != ("rate", "x2")]
    (sheet,) = with_costs(audited(Gaussian(noise_multiplier=3.0))).costs
    assert [line.label for line in sheet.what_if] == ["noise x0.8", "noise x1.25"]


def test_claims_are_those_of_the_calculators() -> None:
    (sheet,) = priced().costs
    subjects = list(named(sheet.accountants))
    assert sheet.claims == tuple(costs.claims(CHEAP, delta=sheet.delta, adjacency=Adjacency.ADD_REMOVE, subjects=subjects))
    place = sheet.accountants.index("reference")
    for line in (*sheet.curve, *sheet.what_if):
        assert line.lower <= line.upper == line.claims[place]


@pytest.mark.slow
def test_the_section_prints_them_and_the_page_beside_it_the_same() -> None:
    (sheet,) = priced().costs
    (section,) = (part for part in sections(priced()) if "costs by several accountants" in part.title)
    alone = reports.costs.page(sheet).decode()
    for text in (f"between {down(sheet.lower, 4)} and {up(sheet.upper, 4)}", "noise\u00a0×0.8", up(sheet.what_if[0].upper, 4)):
        assert text in alone
    assert section.blocks == pages.blocks(sheet, section.blocks[3])
    assert not any("costs by several accountants" in part.title for part in sections(audited(CHEAP)))


def test_the_report_holds_them_and_its_schema_knows_them() -> None:
    assert from_json(to_json(priced())) == priced()
    assert external(priced()).costs == ()


@pytest.mark.slow
def test_the_command_adds_them_to_a_copy(tmp_path: Path) -> None:
    folder, target = tmp_path / "run", tmp_path / "copy"
    folder.mkdir()
    (folder / "report.json").write_bytes(to_json(audited(CHEAP)))
    with pytest.raises(ConfigError, match="--output"):
        commands.report(folder, costs=True)
    assert commands.report(folder, output=target, costs=True, formats=["json"]) == 0
    assert from_json((target / "report.json").read_bytes()).costs[0].claims == priced().costs[0].claims
    assert not from_json((folder / "report.json").read_bytes()).costs


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_format_shows_them(language: str) -> None:
    files = reports.render(priced(), ("pdf", "html", "figures"), language)
    upper = up(priced().costs[0].upper, 4)
    (document,) = (content.decode() for name, content in files.items() if name.endswith(".html"))
    (printed,) = (content for name, content in files.items() if name.endswith(".pdf"))
    assert upper in document
    assert any(upper in page.extract_text() for page in pypdf.PdfReader(io.BytesIO(printed)).pages)
    assert sum(name.startswith("figures/costs.") for name in files) == 2


def test_the_curve_names_its_lines_at_their_ends_and_its_ticks_in_powers_of_ten() -> None:
    """Ticks are set as plain text: markup of matplotlib's own would be printed as it is."""
    plan = _costs.plan(priced().costs[0])
    svg = write_screen(draw_figure(plan.height_mm, plan.paint)).decode()
    assert "mathdefault" not in svg and ">10⁻⁴<" in svg.replace("</text>", "<").replace(" ", "")
    *drawn, band = priced().costs[0].accountants
    for name in (*drawn, "true ε"):
        assert svg.count(f">{name}<") + svg.count(f">{name}\u2002×") == 2  # over delta and over the steps
    assert band == "reference" and f">{band}" not in svg
    *_, last = priced().costs[0].course
    assert last.claims[0] is not None and f">{drawn[0]}\u2002×{last.claims[0] / last.upper:.2f}<" in svg
    orders = [line.label for line in priced().costs[0].course]
    assert len(orders) > 1 and all(orders) and all(f">α {order}<" in svg for order in orders)


def test_the_course_alone_has_a_drawing_and_no_table_of_other_settings() -> None:
    (sheet,) = with_costs(audited(CHEAP), course_only=True).costs
    assert sheet.course[-1].upper == priced().costs[0].upper and not sheet.curve and not sheet.what_if
    svg = write_screen(draw_figure(_costs.plan(sheet).height_mm, _costs.plan(sheet).paint)).decode()
    assert ">true ε<" in svg and ">α " in svg and ">10⁻⁴<" not in svg
    single = with_costs(audited(Gaussian(noise_multiplier=3.0)), course_only=True)
    (section,) = pages.section(single)
    assert [type(block) for block in section.blocks] == [Paragraph, Paragraph, Table]


def test_tables_of_costs_name_changes_and_deltas_in_the_language_of_the_page() -> None:
    (first, *_) = [table for table in _tables("en") if table.columns[0].title == "Change"]
    assert first.rows[0][0] == "noise\u00a0×0.8"
    (chinese, *_) = [table for table in _tables("zh") if table.columns[0].title == "改变"]
    assert chinese.rows[0][0] == "噪声\u00a0×0.8"
    (deltas,) = [table for table in _tables("en") if table.columns[0].title == "δ"]
    assert [row[0] for row in deltas.rows] == [power(delta) for delta in REPORT_DELTAS]


def _tables(language: str) -> list[Table]:
    with speaking(language):
        return [block for page in pages.section(priced()) for block in page.blocks if isinstance(block, Table)]
