"""annex.pdf: which requirement of which text the report shows, and where; filled from the report's own data."""

from collections.abc import Mapping
from typing import ClassVar

from audit.core.results import AuditReport
from reports.formats import pdf
from reports.pages import label
from reports.pages.annex import annex
from reports.words.translation import translated

FILE = "annex.pdf"


class Annex:
    """Renders annex.pdf."""

    has_words: ClassVar[bool] = True

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The document under the name annex.pdf."""
        section = annex(translated(report), pdf.section_pages(report))
        return {FILE: pdf.typeset(report, (section,))}


DOCUMENT, CARD = "label.pdf", "label.md"


class Label:
    """Renders label.pdf and label.md."""

    has_words: ClassVar[bool] = True

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The same page twice: to print, and as a section for a model card."""
        local = translated(report)
        return {DOCUMENT: pdf.typeset(report, label.pages(local)), CARD: label.card(local).encode()}
