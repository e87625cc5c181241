"""Every format: files as bytes under fixed names, the same bytes for the same report, nothing skipped in silence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

import reports
from audit import plugins
from audit.core.errors import ConfigError
from tests.reports import sample

FORMATS = plugins.names("reports.formats")
NAMES = {
    "pdf": {"report.pdf"},
    "json": {"report.json"},
    "junit": {"junit.xml"},
    "sarif": {"results.sarif"},
    "html": {"report.html"},
    "annex": {"annex.pdf"},
    "label": {"label.pdf", "label.md"},
    "registry": {"registry.yaml"},
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["model", "scores"])
def test_a_format_gives_bytes_under_its_names(name: str, kind: str) -> None:
    files = reports.renderer(name).render(sample.ALL[kind]())
    assert files
    assert all(isinstance(content, bytes) and content for content in files.values())
    assert all(not PurePosixPath(file).is_absolute() and ".." not in file for file in files)
    if name in NAMES:
        assert set(files) == NAMES[name]
    else:
        stems = {PurePosixPath(file).with_suffix("").as_posix() for file in files}
        assert set(files) == {f"{stem}.{kind}" for stem in stems for kind in ("svg", "png")}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FORMATS)
def test_equal_reports_give_equal_bytes(name: str) -> None:
    first, again = sample.scores(), replace(sample.scores())  # what was made for one report is not kept for an equal one
    assert first is not again
    assert dict(reports.renderer(name).render(again)) == dict(reports.renderer(name).render(first))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FORMATS)
def test_a_format_depends_on_the_report(name: str) -> None:
    assert dict(reports.renderer(name).render(sample.scores())) != dict(reports.renderer(name).render(sample.model()))


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(ConfigError, match="reports has no 'docx'"):
        reports.render(sample.scores(), ("docx",))


def test_render_gives_all_formats_at_once() -> None:
    files = reports.render(sample.scores())
    assert {"report.pdf", "report.json", "junit.xml", "results.sarif", "figures/overview.svg", "figures/overview.png"} <= set(
        files
    )
