"""label.pdf and label.md: one page for the card of a model."""

from __future__ import annotations

from collections.abc import Mapping

from audit.core.results import AuditReport
from reports.formats import pdf
from reports.pages import label

DOCUMENT, CARD = "label.pdf", "label.md"


class Label:
    """Renders label.pdf and label.md."""

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The same page twice: to print, and as a section for a model card."""
        return {DOCUMENT: pdf.typeset(report, label.pages(report)), CARD: label.card(report).encode()}


PLUGIN = Label
