"""label.pdf and label.md: one page for the card of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from audit.core.results import AuditReport
from reports.formats import pdf
from reports.pages import label
from reports.words.translation import translated

DOCUMENT, CARD = "label.pdf", "label.md"


class Label:
    """Renders label.pdf and label.md."""

    has_words: ClassVar[bool] = True

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The same page twice: to print, and as a section for a model card."""
        local = translated(report)
        return {DOCUMENT: pdf.typeset(report, label.pages(local)), CARD: label.card(local).encode()}


PLUGIN = Label
