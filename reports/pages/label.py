"""The label: claim, answer, verdicts and the sentence to quote on one page, and the same as Markdown for a model card."""

from audit.core.results import AuditReport
from audit.core.rounding import decimals
from reports import headline
from reports.pages import cover, verdict
from reports.pages.blocks import Block, Mark, Mono, Numbers, Quote, Section, Strong, Text
from reports.words.language import say


def pages(report: AuditReport) -> tuple[Section, ...]:
    """The label as a page."""
    with decimals(report.places):
        return _pages(report)


def _pages(report: AuditReport) -> tuple[Section, ...]:
    head = headline.headline(report)
    blocks: tuple[Block, ...] = (
        verdict.verdict(report),
        verdict.facts(report, head, cover.claim(report, head)),
        Numbers(items=cover.cards(report)),
        Quote(text=cover.quote(report)),
        cover.identity(report),
    )
    return (Section(title="", blocks=blocks),)


def card(report: AuditReport) -> str:
    """The label as a section of a model card, in Markdown; no name of a user's can become markup."""
    with decimals(report.places):
        return _card(report)


def _card(report: AuditReport) -> str:
    head = headline.headline(report)
    answer = verdict.verdict(report)
    facts = verdict.facts(report, head, cover.claim(report, head))
    rows = [f"| {_plain(name)} | {_plain(text)} |" for name, text in facts.items]
    lines = [
        f"## {say('label.title')}",
        f"**{say('answer.other', question=_plain(answer.question), strength=_plain(answer.word))}**",
        *(_plain(text) for text in answer.text),
        "\n".join([f"| {say('label.what')} | {say('label.said')} |", "|---|---|", *rows]),
        f"> {_plain(cover.quote(report))}",
        say("label.source", id=_plain(report.id), version=_plain(report.provenance.version)),
    ]
    return "\n\n".join(lines) + "\n"


def _plain(text: Text) -> str:
    """Text without its styles, with every character that Markdown or HTML could read as markup taken from it."""
    pieces = text if isinstance(text, tuple) else (text,)
    full = "".join(piece if isinstance(piece, str) else _inner(piece) for piece in pieces)
    for sign in "\\`*_{}[]<>#|!$":
        full = full.replace(sign, f"\\{sign}")
    return " ".join(full.split("\n"))


def _inner(piece: Mono | Strong | Mark) -> str:
    return piece.text
