"""From a finished `AuditReport` to files: PDF, JSON, JUnit, SARIF, figures. Every file is a view of report.json."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module

from audit.core.errors import ConfigError, OutputError
from audit.core.protocols import Renderer
from audit.core.results import AuditReport

LOG = logging.getLogger("audit")
FORMATS = {
    "pdf": ("reports.formats.pdf", "Pdf"),
    "json": ("reports.formats.json", "Json"),
    "junit": ("reports.formats.junit", "JUnit"),
    "sarif": ("reports.formats.sarif", "Sarif"),
    "figures": ("reports.formats.figures", "Figures"),
}
"""The formats, each with the module and class that renders it; a module is imported when its format is asked for."""


def renderer(name: str) -> Renderer:
    """The renderer of one format.

    Raises:
        ConfigError: there is no such format.
    """
    if name not in FORMATS:
        raise ConfigError(f"there is no report format '{name}'; choose among {', '.join(FORMATS)}")
    module, kind = FORMATS[name]
    found: Renderer = getattr(import_module(module), kind)()
    return found


def render(report: AuditReport, formats: Sequence[str] = tuple(FORMATS)) -> dict[str, bytes]:
    """The files of the report in each of `formats`, by name. Equal reports give equal bytes.

    Raises:
        OutputError: a format could not be rendered; nothing is skipped in silence.
    """
    files: dict[str, bytes] = {}
    for name in formats:
        files.update(renderer(name).render(report))
    return files


def attempt(report: AuditReport, formats: Sequence[str] = tuple(FORMATS)) -> tuple[dict[str, bytes], list[str]]:
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
