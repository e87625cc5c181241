"""From a finished `AuditReport` to files: PDF, JSON, JUnit, SARIF, figures. Every file is a view of report.json."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module

from audit import plugins
from audit.core.errors import ConfigError, OutputError
from audit.core.protocols import Renderer
from audit.core.results import USUAL_FORMATS, AuditReport

LOG = logging.getLogger("audit")
PACKAGE = "reports.formats"


def renderer(name: str) -> Renderer:
    """Return the renderer of one format: a file of `reports/formats`, or a third party's `package.module:Class`.

    Raises:
        ConfigError: there is no such format.
    """
    plugin: Renderer = plugins.build(PACKAGE, {"kind": name}, "reports")
    return plugin


def render(report: AuditReport, formats: Sequence[str] = USUAL_FORMATS) -> dict[str, bytes]:
    """Return the files of the report in each of `formats`, by name. Equal reports give equal bytes.

    Raises:
        ConfigError: there is no such format.
        OutputError: a format could not be rendered, or two formats write the same file; nothing is skipped in silence.
    """
    files: dict[str, bytes] = {}
    for name in formats:
        pages = renderer(name).render(report)
        if twice := sorted(set(pages) & set(files)):
            raise OutputError(f"format '{name}' would write {twice[0]} over that of another format; leave one of them out")
        files.update(pages)
    return files


def attempt(report: AuditReport, formats: Sequence[str] = USUAL_FORMATS) -> tuple[dict[str, bytes], list[str]]:
    """The files of those formats that could be rendered, and why each other could not: no format takes others with it.

    Whatever a renderer or its library raises counts: the audit behind the report may have taken days.
    """
    files: dict[str, bytes] = {}
    failures = []
    for name in sorted(formats, key=lambda name: name != "json"):
        try:
            files.update(renderer(name).render(report))
        except ConfigError:
            raise
        except Exception as error:
            LOG.exception("format '%s' could not be rendered", name)
            failures.append(f"{name}: {error}")
    return files, failures


def probe() -> bytes:
    """A one-word PDF: whether documents can be typeset here at all.

    Raises:
        OutputError: typst is absent or does not work.
    """
    try:
        typst = import_module("typst")
        page: bytes = typst.compile(b"ready", format="pdf", ignore_system_fonts=True)
    except (ImportError, RuntimeError) as error:
        raise OutputError(f"typst cannot typeset a page: {error}; reinstall it with pip install typst") from error
    return page
