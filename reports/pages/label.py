"""The label: claim, answer, verdicts and the sentence to quote on one page, and the same as Markdown for a model card."""

from audit.core.results import AuditReport
from reports import headline
from reports.pages import cover, verdict
from reports.pages.blocks import Block, Numbers, Quote, Section, Text, pieces
from reports.words.language import say
from reports.words.report_cache import in_own_decimals


@in_own_decimals
def pages(report: AuditReport) -> tuple[Section, ...]:
    """The label as a page."""
    head = headline.headline(report)
    blocks: tuple[Block, ...] = (
        verdict.verdict(report),
        verdict.facts(report, head, cover.claim(report, head)),
        Numbers(items=cover.cards(report)),
        Quote(text=cover.quote(report)),
        cover.identity(report),
    )
    return (Section(title="", blocks=blocks),)


@in_own_decimals
def card(report: AuditReport) -> str:
    """The label as a section of a model card, in Markdown; no name of a user's can become markup."""
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
    full = "".join(piece if isinstance(piece, str) else piece.text for piece in pieces(text))
    for sign in "\\`*_{}[]<>#|!$":
        full = full.replace(sign, f"\\{sign}")
    return " ".join(full.split("\n"))
