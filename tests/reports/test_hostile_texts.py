"""Titles and names from third-party files: no format obeys a character of theirs, and each stays what its readers expect."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

import reports
from audit.core.results import AuditReport
from tests.reports import sample

HOSTILE = '</script><script>x</script><img src=x onerror=x>"\'$(x) #read("/etc/passwd") \u202eevil\u2066 \x1b[31m\x07 =x() -->'
UNSEEN = "\u202e\u2066\x1b\x07"


@pytest.fixture(scope="module")
def report() -> AuditReport:
    plain = sample.scores()
    mechanisms = tuple(
        replace(mechanism, games=tuple(replace(game, name=f"{game.name}{HOSTILE}", note=HOSTILE) for game in mechanism.games))
        for mechanism in plain.mechanisms
    )
    return replace(plain, title=f"{plain.title}{HOSTILE}", notes=(HOSTILE,), mechanisms=mechanisms)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", ["html", "junit", "sarif", "json", "figures"])
def test_no_character_of_a_text_is_obeyed(report: AuditReport, form: str) -> None:
    for name, content in reports.render(report, [form]).items():
        if not name.endswith(".png"):
            text = content.decode()
            assert "<script>x" not in text or name.endswith(("json", "sarif")), name
            assert "<img src" not in text or name.endswith(("json", "sarif")), name
        if name.endswith((".xml", ".svg")):
            ElementTree.fromstring(content)
        if name.endswith((".xml", ".svg", ".html")):
            assert not set(UNSEEN) & set(text), name
        if name.endswith((".json", ".sarif")):
            json.loads(content)


@pytest.mark.slow
def test_the_pdf_shows_the_rest_of_such_texts(report: AuditReport) -> None:
    (content,) = reports.render(report, ["pdf"]).values()
    assert content.startswith(b"%PDF-")
