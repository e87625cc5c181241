"""The PDF as a reader gets it: pages, words, tags, figures, the attachment, the same bytes every time."""

from __future__ import annotations

import io
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from audit.core.claims import Outcome
from audit.core.errors import OutputError
from audit.core.results import AuditReport, Metric
from reports.formats import figures, json, pdf
from reports.pages.blocks import Missing
from reports.pages.document import sections
from tests.marks import slow
from tests.reports import sample

pypdf = pytest.importorskip("pypdf", reason="reading PDFs needs the extra 'dev'")

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"consistent": 11, "clean": 11, "violated": 11, "out_of_reach": 11, "invalid": 11, "model": 5, "scores": 4}
TITLES = {
    "consistent": "The claim was not contradicted",
    "clean": "The claim was not contradicted",
    "violated": "The claim is contradicted",
    "out_of_reach": "Not testable",
    "invalid": "Invalid",
    "model": "No claim was tested",
    "scores": "The claim was not contradicted",
}
FORBIDDEN = (
    r"\bis (now )?(private|anonymous|safe|secure|compliant|certified)\b",
    r"\b(GDPR|DSGVO)[ -]compliant\b",
    r"\bguarantees? (your|the) privacy\b",
    r"\bno leakage\b",
    r"\bPASS\b",
    r"TODO|FIXME|XXX|\[ADD|lorem ipsum|\bNone\b|\bnan\b|\binf\b",
)


@pytest.fixture(scope="module", params=slow(sample.ALL, ["clean", "out_of_reach"]))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def typeset(kind: str) -> bytes:
    return pdf.typeset(sample.ALL[kind]())


@pytest.fixture(scope="module")
def document(kind: str) -> bytes:
    return typeset(kind)


@pytest.fixture(scope="module")
def reader(document: bytes) -> Any:
    return pypdf.PdfReader(io.BytesIO(document))


@pytest.fixture(scope="module")
def text(reader: Any) -> str:
    return " ".join("\n".join(page.extract_text() for page in reader.pages).split()).replace("\xa0", " ")


@pytest.mark.slow
def test_pages_and_verdict(kind: str, reader: Any, text: str) -> None:
    assert abs(len(reader.pages) - PAGES[kind]) <= 1, "a page came or went: look at the pages before changing this number"
    assert TITLES[kind] in " ".join(reader.pages[0].extract_text().split())


@pytest.mark.sampled(1)
def test_no_word_promises_what_an_audit_cannot(text: str) -> None:
    for pattern in FORBIDDEN:
        assert not re.search(pattern, text), re.search(pattern, text)


@pytest.mark.sampled(2)
def test_every_figure_speaks_to_a_screen_reader(kind: str, reader: Any) -> None:
    result = []

    def walk(node: Any) -> None:
        node = node.get_object()
        if isinstance(node, list):
            for item in node:
                walk(item)
            return
        if not hasattr(node, "get"):
            return
        if node.get("/S") == "/Figure":
            result.append(str(node.get("/Alt", "")))
        if "/K" in node and not isinstance(node["/K"], int):
            walk(node["/K"])

    walk(reader.trailer["/Root"]["/StructTreeRoot"])
    drawn = figures.drawings(sample.ALL[kind]())
    assert sorted(result) == sorted(item.alt for item in drawn.values())
    assert all(re.search(r"\d", item) for item in result), "an alt text without a number"


@pytest.mark.sampled(2)
def test_the_document_is_tagged_archival_and_titled(document: bytes, reader: Any) -> None:
    root = reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"] and root["/Lang"] == "en"
    meta = root["/Metadata"].get_object().get_data().decode()
    assert re.search(r"pdfaid:part>3<", meta) and re.search(r"pdfaid:conformance>A<", meta) and "pdfuaid:part>1<" in meta
    assert reader.metadata.title.startswith("Privacy audit report")
    assert b"%PDF-1.7" in document[:16]


def test_the_report_is_attached_and_comes_out_whole(kind: str, document: bytes, reader: Any) -> None:
    expected = json.to_json(sample.ALL[kind]())
    assert pdf.attachment(document) == expected
    assert reader.attachments["report.json"] == [expected]


@pytest.mark.sampled(2)
def test_what_is_not_measured_is_printed_as_missing(kind: str, text: str) -> None:
    parts = [block.what for item in sections(sample.ALL[kind]()) for block in item.blocks if isinstance(block, Missing)]
    assert text.count("Missing") >= len(parts)
    for what in parts:
        assert what in text
    if kind == "scores":
        assert len(parts) >= 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize("outcome", Outcome)
def test_every_number_of_the_cover_is_there(outcome: Outcome) -> None:
    pages = pypdf.PdfReader(io.BytesIO(typeset(outcome.value))).pages
    page, second = (sheet.extract_text().replace("\xa0", " ") for sheet in pages[:2])
    assert "3.41" in second, "what the same training leaks without protection"
    claim = {Outcome.VIOLATED: "1.00", Outcome.OUT_OF_REACH: "32.00"}.get(outcome, "8.00")
    void = outcome is Outcome.INVALID
    proven, numbers = ("4.90", "3.34"), (claim, "9.40", "10⁻⁵", "per example")
    for word in numbers if void else (*proven, "95 %", *numbers):
        assert word in page.replace("10−5", "10⁻⁵"), word
    for word in proven if void else ():
        assert word not in page, "a void bound stands on the cover"


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_process() -> None:
    code = (
        "import hashlib; from tests.reports import sample; import reports;"
        "files = reports.render(sample.scores());"
        "print(hashlib.sha256(b''.join(files[name] for name in sorted(files))).hexdigest())"
    )
    result = set()
    for zone, hash_seed in (("UTC", "1"), ("Asia/Tokyo", "2")):
        environment = os.environ | {"TZ": zone, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        result.add(done.stdout)
    assert len(result) == 1


@pytest.mark.slow
def test_names_of_a_user_are_never_markup() -> None:
    hostile = '#panic("x") *bold* $x$ <label> @ref \\ "quoted" `raw` // comment'
    report = sample.scores()
    odd = replace(report.mechanisms[0], name=hostile)
    result = pdf.typeset(replace(report, title=hostile, mechanisms=(odd,), notes=(hostile,), config=hostile))
    page = pypdf.PdfReader(io.BytesIO(result)).pages[0].extract_text()
    assert "#panic" in page and "*bold*" in page


@pytest.mark.slow
def test_names_that_look_alike_get_figures_of_their_own() -> None:
    report = sample.run()
    twins = tuple(replace(item, name=name) for item, name in zip(report.mechanisms, ("a b", "a_b"), strict=True))
    drawn = figures.drawings(replace(report, mechanisms=twins))
    assert len({item.alt for item in drawn.values()}) == len(drawn) == len(figures.drawings(report))


@pytest.mark.slow
def test_regression_reports_read_well() -> None:
    report = sample.run()
    metrics = (
        Metric(name="MSE", value=25321.4, spread=812.0, models=16),
        Metric(name="R2", value=-0.21, spread=0.05, models=16),
    )
    edited = tuple(replace(item, name=f"{item.name} $x^2$", utility=metrics) for item in report.mechanisms)
    result = pypdf.PdfReader(io.BytesIO(pdf.typeset(replace(report, mechanisms=edited))))
    everything = "".join(page.extract_text() for page in result.pages)
    assert "25,321" in everything and "−0.210" in everything and "$x^2$" in everything


def test_a_bad_time_is_named() -> None:
    with pytest.raises(OutputError, match="created is 'yesterday'"):
        pdf.typeset(replace(sample.scores(), created="yesterday"))


@pytest.mark.slow
def test_extreme_numbers_can_be_set() -> None:
    report = sample.run()
    plain, dp = report.mechanisms
    claims = tuple(replace(claim, epsilon=math.inf) for claim in dp.claims)
    verdicts = tuple(replace(item, claim=claim) for item, claim in zip(dp.verdicts, claims, strict=True))
    curves = tuple(replace(item, epsilon=tuple(math.inf for _ in item.steps)) for item in dp.trajectories)
    infinite = replace(dp, claims=claims, verdicts=verdicts, trajectories=curves)
    page = pypdf.PdfReader(io.BytesIO(pdf.typeset(replace(report, mechanisms=(plain, infinite))))).pages[0].extract_text()
    assert "∞" in page


def test_a_report_of_nothing_can_be_set() -> None:
    empty = replace(sample.model(), mechanisms=(), coverage=(), notes=())
    assert pdf.typeset(empty).startswith(b"%PDF-")


@pytest.mark.slow
def test_twenty_attacks_and_many_notes_can_be_set() -> None:
    report = sample.run(
        notes=tuple(f"Remark number {i} that is long enough to need more than one line of the cover. " * 2 for i in range(12))
    )
    plain, dp = report.mechanisms
    game = dp.games[0]
    many = replace(game, attacks=tuple(replace(game.attacks[i % 2], scorer=f"attack_{i:02d}") for i in range(20)))
    result = pypdf.PdfReader(io.BytesIO(pdf.typeset(replace(report, mechanisms=(plain, replace(dp, games=(many,)))))))
    everything = "".join(page.extract_text() for page in result.pages)
    assert all(f"attack_{i:02d}" in everything for i in range(20))


def _render_seconds(report: AuditReport) -> float:
    import time

    fresh_report = replace(report)  # of which nothing is drawn yet
    began = time.process_time()
    pdf.typeset(fresh_report)
    return time.process_time() - began


@pytest.mark.slow
def test_a_report_is_rendered_in_seconds() -> None:
    assert _render_seconds(sample.run()) < 8.0


@pytest.mark.slow
def test_figures_are_numbered_in_the_order_in_which_they_stand(kind: str) -> None:
    """The one of the first page takes its place from the room that is left; its number does not change with that."""
    numbers = [int(number) for page in pypdf.PdfReader(io.BytesIO(typeset(kind))).pages for number in _captions(page)]
    assert numbers == list(range(1, len(numbers) + 1))


def _captions(page: Any) -> list[str]:
    return re.findall(r"^Figure (\d+)\s", page.extract_text(), re.MULTILINE)
