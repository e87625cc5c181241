"""Phrases that several pages share."""

from collections.abc import Callable, Sequence

from audit.core.lower_bounds import read_epsilon
from audit.core.results import AuditReport
from reports.figures._plots import Plan
from reports.headline import GameBound
from reports.pages.blocks import Block, Figure, Missing
from reports.words import named
from reports.words.language import at_least, confidence, say

MOST_NAMES = 24  # of trainings in a sentence


def proof(report: AuditReport, source: GameBound | None) -> str:
    """A proven epsilon with all it must never be printed without: its family and its confidence."""
    if source is None:
        return say("proof.nothing")
    family = source.bound.family
    inside = say("inside.family", family=named.family(family)) if family else ""
    return say(
        "proof.with", bound=at_least(read_epsilon(source.bound)), inside=inside, confidence=confidence(report.confidence)
    )


def join_words(names: Sequence[str]) -> str:
    """Names as a list in a sentence.

    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    if len(names) < 2:
        return "".join(names)
    return say("separator.last", names=say("separator.words").join(names[:-1]), last=names[-1])


def list_names(names: Sequence[str], limit: int = MOST_NAMES) -> str:
    """All names of a short list, the first of a long one and how many more there are."""
    if len(names) <= limit:
        return join_words(names)
    return join_words([*names[: limit - 1], say("page.more", len=len(names) - limit + 1)])


def join_sentences(sentences: Sequence[str]) -> str:
    """Sentences one after the other, empty ones left out."""
    return say("separator.space").join(sentence for sentence in sentences if sentence)


def sentence(text: str) -> str:
    """`text` with a capital at its start and one full stop at its end."""
    end = say("separator.end")
    return f"{text[:1].upper()}{text[1:].rstrip(f'.{end}')}{end}" if text else ""


def figure_block(drawing: Plan) -> Figure:
    """A drawing as a block."""
    return Figure(name=drawing.name, caption=drawing.caption, alt=drawing.alt)


def or_missing(present: object, build: Callable[[], tuple[Block, ...]], subject: str) -> tuple[Block, ...]:
    """The built blocks, or the remark that this part is missing."""
    return build() if present else (Missing(what=subject),)
