"""Phrases that several pages share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from audit.core.results import AuditReport
from audit.core.rounding import at_least, confidence
from reports.figures._plots import Drawing
from reports.headline import GameBound
from reports.pages.blocks import Block, Figure, Missing
from reports.words import en


def proof(report: AuditReport, source: GameBound | None) -> str:
    """A proven epsilon with all it must never be printed without: its family and its confidence."""
    if source is None:
        return "nothing"
    family = source.bound.family
    inside = f" inside the family {en.family(family)}" if family else ""
    return f"{at_least(source.bound.epsilon)}{inside} with {confidence(report.confidence)} confidence"


def join_words(names: Sequence[str]) -> str:
    """Names as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return "".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"


def sentence(text: str) -> str:
    """`text` with a capital at its start and one full stop at its end."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def figure_block(drawing: Drawing) -> Figure:
    """A drawing as a block."""
    return Figure(name=drawing.name, caption=drawing.caption, alt=drawing.alt)


def or_missing(present: object, build: Callable[[], tuple[Block, ...]], subject: str) -> tuple[Block, ...]:
    """The built blocks, or the remark that this part is missing."""
    return build() if present else (Missing(what=subject),)
