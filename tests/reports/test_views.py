"""The views beside the PDF: page for a browser, label, annex, registry record. None holds more than it may."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

import reports
from audit.core.provenance import Engagement
from audit.core.results import AuditReport
from reports.editions.external import external
from reports.formats import html, pdf, registry
from reports.pages import label
from reports.pages.annex import REQUIREMENTS, Presence, annex
from reports.pages.blocks import Table
from reports.pages.document import texts
from reports.words.language import speaking
from reports.words.translation import translated
from tests.marks import slow
from tests.reports import sample

FORBIDDEN = re.compile(r"\b(is|are) (now )?(safe|private|anonymous|compliant)\b|\bpassed\b(?! )", re.IGNORECASE)
VOID = {"meta", "path", "circle", "use", "rect", "image", "br", "stop"}


@cache
def page(kind: str) -> str:
    return html.document(sample.ALL[kind]())


class Balance(HTMLParser):
    """Counts what is open and collects every address that a browser would ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["consistent", "model", "scores"])
def test_the_page_is_one_well_formed_file_that_asks_for_nothing(kind: str) -> None:
    text = page(kind)
    reader = Balance()
    reader.feed(text)
    assert reader.open == [] and len(text.encode()) < 500_000
    assert all(address.startswith(("#", "data:")) for address in reader.addresses)
    assert "url(http" not in text and "@import" not in text and "fetch(" not in text and "window.open" not in text
    assert "default-src 'none'" in text and "prefers-color-scheme:dark" in text and "@media print" in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert {address[1:] for address in reader.addresses if address.startswith("#")} <= set(ids)


def test_curves_tell_their_points_with_chance_beside_them() -> None:
    titles = re.findall(r"<circle [^>]*><title>(.*?)</title>", page("consistent"))
    assert len(titles) > 30 and all("guessing:" in title for title in titles)
    assert page("consistent").count("<svg") == page("consistent").count('role="img" aria-label="')


def test_names_of_a_user_are_never_markup_in_any_view() -> None:
    hostile = "<script>alert(1)</script> | [x](javascript:1) `y` *z*"
    report = replace(sample.scores(), title=hostile, notes=(hostile,))
    assert "<script>alert" not in html.document(report)
    card = label.card(report)
    assert "<script>" not in card.replace("\\<", "") and "[x](" not in card
    assert yaml.safe_load(registry.Registry().render(report)["registry.yaml"])["deployment"]["basic"]["name"] == hostile


@pytest.mark.parametrize("kind", sample.ALL)
def test_the_label_is_one_page_with_nothing_attached(kind: str) -> None:
    pypdf = pytest.importorskip("pypdf", reason="reading PDFs needs the extra 'dev'")
    report = replace(sample.ALL[kind](), notes=())
    files = reports.render(report, ("label",))
    document = pypdf.PdfReader(io.BytesIO(files["label.pdf"]))
    assert len(document.pages) == 1 and not document.attachments
    card = files["label.md"].decode()
    assert card.startswith("## ") and "stronger attack may exist" in card and not FORBIDDEN.search(card)
    names = {record.record for item in report.mechanisms for game in item.games for record in game.records}
    assert not any(name in card for name in names)


def test_the_annex_speaks_of_every_requirement_from_the_reports_own_data() -> None:
    assert [item.number for item in REQUIREMENTS] == [f"R{number}" for number in range(1, 27)]

    def judged(report: AuditReport) -> dict[str, Presence]:
        return {item.number: item.judge(report) for item in REQUIREMENTS}

    report = sample.run()
    result = judged(report)
    assert result["R4"] is Presence.SHOWN and result["R13"] is Presence.PARTLY and result["R23"] is Presence.ELSEWHERE
    assert result["R24"] is Presence.NOT_SHOWN and result["R15"] is Presence.PARTLY
    provided = Engagement(release_context="open weights", auditor="A. Auditor", valid_until="2027", next_audit="2026-07")
    declared = judged(replace(report, engagement=provided))
    assert declared["R24"] is declared["R15"] is declared["R16"] is Presence.SHOWN
    empty = judged(replace(report, mechanisms=(), coverage=(), policy=()))
    assert {empty[number] for number in ("R1", "R2", "R4", "R12", "R13", "R18")} == {Presence.NOT_SHOWN}
    message = " ".join(texts(annex(report).blocks))
    assert "no legal advice" in message and not FORBIDDEN.search(message)


@pytest.mark.slow
def test_the_annex_is_a_document_with_nothing_attached() -> None:
    pypdf = pytest.importorskip("pypdf", reason="reading PDFs needs the extra 'dev'")
    document = pypdf.PdfReader(io.BytesIO(reports.render(sample.run(), ("annex",))["annex.pdf"]))
    assert not document.attachments and len(document.pages) <= 2
    assert "R26" in "".join(sheet.extract_text() for sheet in document.pages)


@pytest.mark.parametrize("language", slow(["en", "zh"], ["zh"]))
def test_the_annex_names_the_pages_on_which_sections_begin(language: str) -> None:
    pypdf = pytest.importorskip("pypdf", reason="reading PDFs needs the extra 'dev'")
    report = sample.run()
    with speaking(language):
        pages = pdf.section_pages(report)
        section = annex(translated(report), pages)
        document = pypdf.PdfReader(io.BytesIO(pdf.typeset(report)))
        outline = {
            entry.title: 1 + document.get_destination_page_number(entry) for entry in reversed([*flat(document.outline)])
        }
        assert outline == pages and len(pages) > 10
        cells = [row[3] for block in section.blocks if isinstance(block, Table) for row in block.rows if len(row[3]) == 2]
        numbers = [int(number) for cell in cells for number in re.findall(r"(?:page|第) (\d+)", str(cell[0]))]
    assert len(numbers) >= len(cells) - 1 > 5 and set(numbers) <= set(pages.values()) | {1}  # a file has no page


def flat(outline: list[Any]) -> Iterator[Any]:
    """The entries of an outline, those below others too."""
    for entry in outline:
        yield from flat(entry) if isinstance(entry, list) else [entry]


BASIC = {"name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region", "publication_date"}
SECTIONS = {
    "basic": BASIC | {"data_product_sector"},
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {"privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"},
    "deployment_model": {"model_name", "access_type", "release_type", "data_source_type", "actors"},
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "notes", "registry_authors"},
}
"""Keys that the registry's schema of 15 July 2026 knows, of the sections that a record of ours may have."""


@pytest.mark.parametrize("kind", sample.ALL)
def test_the_record_has_the_keys_and_words_of_the_registry(kind: str) -> None:
    record = yaml.safe_load(registry.Registry().render(sample.ALL[kind]())["registry.yaml"])
    assert set(record) == {"url_slug", "status", "tier", "deployment"}
    assert record["status"] == "Draft" and record["tier"] in (1, 2) and re.fullmatch(r"[a-z0-9_]+", record["url_slug"])
    deployment = record["deployment"]
    assert {"basic", "administrative"} <= set(deployment) <= set(SECTIONS)
    assert all(set(values) <= SECTIONS[name] for name, values in deployment.items()) and set(deployment["basic"]) >= BASIC
    assert deployment["basic"]["data_product_type"] == "Machine learning model"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", deployment["basic"]["publication_date"])
    assert deployment["administrative"]["registry_authors"] and deployment["basic"]["data_curators"]
    if record["tier"] == 2:
        assert deployment["dp_variant"]["variant_name"] in ("Pure DP", "Approximate DP")
        assert isinstance(deployment["privacy_loss"]["privacy_parameters"]["epsilon"], float)


@pytest.mark.skipif("REGISTRY_SCHEMA" not in os.environ, reason="set REGISTRY_SCHEMA to the registry's deployments-schema.yaml")
def test_the_record_is_valid_by_the_schema_of_the_registry() -> None:
    """The schema is in the repository opendp/deployments-registry-data, under schemas."""
    jsonschema = pytest.importorskip("jsonschema", reason="checking a schema needs the extra 'dev'")
    schema = yaml.safe_load(Path(os.environ["REGISTRY_SCHEMA"]).read_text(encoding="utf-8"))
    for kind in sample.ALL:
        jsonschema.validate(yaml.safe_load(registry.Registry().render(sample.ALL[kind]())["registry.yaml"]), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"tier": 0}, schema)


@pytest.mark.slow
def test_the_external_edition_keeps_no_setting_and_no_person() -> None:
    provided = Engagement(owner="A hospital", auditor="A. Auditor", reviewer="B. Reviewer")
    report = replace(sample.run(), settings=(("seed", "20260101"),), config_lines=(("seed", 3),), engagement=provided)
    result = external(report)
    assert result.settings == () and result.config_lines == () and result.engagement == Engagement(owner="A hospital")
    assert "20260101" not in html.document(result) and "Auditor" not in "".join(texts(annex(result).blocks)).replace(
        "Auditors", ""
    )
