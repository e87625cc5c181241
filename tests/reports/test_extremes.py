"""Reports at the ends of what an audit can be are still documents: filled pages, no empty table, no crushed column."""

from __future__ import annotations

import io
from functools import cache

import matplotlib.image
import numpy as np
import pytest

from audit.core.results import AuditReport
from audit.core.rounding import width
from reports.figures._plots import draw_figure
from reports.formats import figures, html, pdf
from reports.pages.blocks import Table
from reports.pages.document import sections
from tests.marks import slow
from tests.reports import extremes, sample

CASES = {**extremes.ALL, **sample.ALL}
DEAR = [name for name in CASES if name not in ("no_attack", "scores")]
MOST_LEFT_EMPTY = 0.35  # of the height of a page that is not the last of its document; a figure may need as much
MOST_HTML_BYTES = 500_000


@cache
def build(name: str) -> AuditReport:
    return CASES[name]()


def filled(report: AuditReport) -> list[float]:
    """How far down each page something is, as a share of its height; header and footer left out."""
    ends = []
    for image in pdf.page_images(report, 20):
        grey = matplotlib.image.imread(io.BytesIO(image))[..., :3].mean(axis=2)
        height = len(grey)
        rows = np.flatnonzero((grey[int(0.07 * height) : int(0.935 * height)] < 0.9).any(axis=1))
        ends.append(0.07 + rows.max(initial=0) / height)
    return ends


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", slow(CASES, DEAR))
def test_no_page_but_the_last_is_left_half_empty(name: str) -> None:
    ends = filled(build(name))
    assert min(ends[:-1]) > 0.935 - MOST_LEFT_EMPTY, [round(end, 2) for end in ends]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_every_table_has_rows_and_room_for_its_words(name: str) -> None:
    """A column that takes what is left needs something to be left by those that are as wide as their text."""
    for section in sections(build(name)):
        for table in (block for block in section.blocks if isinstance(block, Table)):
            assert table.rows, table.caption
            if not any(column.share for column in table.columns):
                continue
            fixed = [i for i, column in enumerate(table.columns) if not column.share]
            widths = [max(width(str(getattr(row[i], "text", row[i]))) for row in table.rows) for i in fixed]
            assert sum(widths) <= 95, (table.caption, widths)


@pytest.mark.parametrize("name", slow(CASES, DEAR))
def test_the_html_stays_small(name: str) -> None:
    assert len(html.document(build(name)).encode()) < MOST_HTML_BYTES


def test_no_sentence_has_empty_brackets() -> None:
    text = "".join(str(section) for section in sections(build("no_attack")))
    assert "()" not in text.replace("=()", "") and "0 attacks in 3 games" in text


def test_a_claim_without_a_limit_is_not_called_no_claim() -> None:
    alt = figures.planned(build("infinite_claim"))["overview"].alt
    assert alt.count("claimed without limit") == 2 and alt.count("no claim") == 1


def outside(report: AuditReport, name: str) -> float:
    """How many mm a drawing reaches beyond its figure, on whichever side is worst."""
    plan = figures.planned(report)[name]
    figure = draw_figure(plan.height_mm, plan.paint)
    box = figure.get_tightbbox(figure.canvas.get_renderer())
    return 25.4 * max(-box.x0, -box.y0, box.x1 - figure.get_figwidth(), box.y1 - figure.get_figheight())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES)
def test_no_name_is_cut_off_beside_a_drawing_of_all_trainings(case: str) -> None:
    wide = {
        name: outside(build(case), name) for name in ("overview", "parties", "utility") if name in figures.planned(build(case))
    }
    assert max(wide.values(), default=0.0) < 0.5, wide


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_drawing_reaches_beyond_its_figure(case: str) -> None:
    wide = {name: outside(build(case), name) for name in figures.planned(build(case))}
    assert max(wide.values(), default=0.0) < 0.5, wide
