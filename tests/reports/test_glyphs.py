"""A title in any script is rendered: what the fonts lack is replaced and said, and no format takes others with it."""

from __future__ import annotations

import io
from dataclasses import replace

import pypdf
import pytest

import reports
from audit.core.errors import OutputError
from audit.core.results import AuditReport
from reports.formats import json, pdf
from tests.reports.sample import run as report


def pages(found: AuditReport) -> str:
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(pdf.typeset(found))).pages)


@pytest.mark.slow
def test_chinese_japanese_and_korean_are_set_as_they_are() -> None:
    text = pages(replace(report(), title="手写数字 繁體 ひらがな 한국어"))
    assert "手写数字" in text and "ひらがな" in text and "한국어" in text
    assert "stand as" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "point"),
    [("smile 😀 here", "U+1F600"), pytest.param("bell \x07 and \ufeffmark", "U+0007", marks=pytest.mark.slow)],
)
def test_what_no_font_has_is_replaced_and_said(title: str, point: str) -> None:
    text = pages(replace(report(), title=title))
    assert f"stand as {pdf.REPLACEMENT}: {point}" in " ".join(text.split())


def test_a_format_that_fails_leaves_the_others_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    full = reports.render(report(), ("json", "junit", "sarif"))

    def refuse(self: object, found: AuditReport) -> dict[str, bytes]:
        raise ValueError("a library broke")

    monkeypatch.setattr(pdf.Pdf, "render", refuse)
    files, failures = reports.attempt(report(), ("pdf", "junit", "json", "sarif"))
    assert files == full
    assert failures == ["pdf: a library broke"]
    assert json.from_json(files["report.json"]) == report()
    with pytest.raises(ValueError, match="a library broke"):
        reports.render(report(), ("pdf",))
    assert issubclass(OutputError, Exception)
