"""report.html: the pages of the PDF in one file for a browser, without any request to elsewhere; tables sort, curves speak."""

import importlib.resources
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any, ClassVar

from audit.core.results import AuditReport
from audit.core.visible import visible
from reports.figures import _plots, _scores
from reports.formats import _screen_figure, figures
from reports.pages import blocks as page
from reports.pages.blocks import Block, Section, Text
from reports.pages.document import sections
from reports.words.language import current, say
from reports.words.translation import translated

FILE = "report.html"
_PROLOGUE = re.compile(rb"^.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(rb"<metadata>.*?</metadata>", re.DOTALL)

_FILES = importlib.resources.files(__package__)
STYLE = "\n" + (_FILES / "report.css").read_text("utf-8")
SCRIPT = "\n" + (_FILES / "report.js").read_text("utf-8")


class Html:
    """Renders report.html."""

    has_words: ClassVar[bool] = True

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The document under the name report.html: one file, no request to any other."""
        return {FILE: document(report).encode()}


def document(report: AuditReport) -> str:
    """The whole page as text."""
    report = translated(report)
    parts = [part for part in sections(report) if not any(isinstance(block, page.Contents) for block in part.blocks)]
    top_sections = [part for part in parts if part.title and part.level == 1]
    links = "".join(f'<li><a href="#{_anchor(part, parts)}">{escape(part.title)}</a></li>' for part in top_sections)
    body = "".join(_section(part, parts, report) for part in parts[1:])
    first = "".join(_block(block, 2, report) for block in parts[0].blocks)
    head = (
        f"<h1>{escape(say('document.title'))}</h1>"
        f"<p>{escape(report.title)}. {escape(report.id)}, {escape(report.created[:10])}.</p>"
    )
    contents = f'<nav aria-label="{escape(say("contents"))}"><ol>{links}</ol></nav>'
    return shell(say("document.of", title=report.title), _screen_figure.shared(f"{head}{first}{contents}{body}"))


def shell(title: str, body: str) -> str:
    """A whole page around `body`, in the current language: its style, its script, and no request to elsewhere."""
    return visible(
        f'<!doctype html><html lang="{current().tag}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline';script-src "
        "'unsafe-inline';img-src data:\">"
        f"<title>{escape(title)}</title><style>{STYLE}{_screen_figure.STYLE}</style></head><body><main>{body}</main>"
        f"<script>{SCRIPT}</script></body></html>\n",
        keep="\n",
    )


def standalone(title: str, blocks: Sequence[Block], drawings: Mapping[str, bytes]) -> bytes:
    """Return a page in the report's style that is about no report; `drawings` are the SVG of its figures by name."""

    def fragment(block: Block) -> str:
        if isinstance(block, page.Figure):
            return _frame(_drawing(drawings[block.name], _own(drawings, block.name)), block)
        write: Callable[..., str] = WRITERS[type(block)]
        return write(block, 2, None)

    return shell(title, f"<h1>{escape(title)}</h1>{''.join(map(fragment, blocks))}").encode()


def _anchor(part: Section, parts: list[Section]) -> str:
    return f"section-{parts.index(part)}"


def _section(part: Section, parts: list[Section], report: AuditReport) -> str:
    level = part.level + 1
    title = f'<h{level} id="{_anchor(part, parts)}">{escape(part.title)}</h{level}>' if part.title else ""
    return f"<section>{title}{''.join(_block(block, level + 1, report) for block in part.blocks)}</section>"


def _block(block: Block, level: int, report: AuditReport) -> str:
    write: Callable[..., str] = WRITERS[type(block)]
    return write(block, level, report)


def inline(text: Text) -> str:
    """Text with its styles as HTML; no name of a user's can become markup."""
    fragments = []
    for piece in page.pieces(text):
        match piece:
            case page.Mono(text=inner):
                fragments.append(f"<code>{escape(inner)}</code>")
            case page.Strong(text=inner):
                fragments.append(f"<strong>{escape(inner)}</strong>")
            case page.Mark(text=inner, tone=tone):
                mark = {"good": "● ", "open": "○ ", "bad": "▲ "}.get(tone.value, "")
                fragments.append(f'<span class="{tone.value}">{mark}{escape(inner)}</span>')
            case str():
                fragments.append(escape(piece))
    return "".join(fragments)


def _table(block: page.Table, *_: Any) -> str:
    side = [' class="right"' if column.right else "" for column in block.columns]
    head = "".join(
        f'<th scope="col"{attribute}><button type="button">{escape(column.title)}</button></th>'
        if column.title
        else "<td></td>"
        for column, attribute in zip(block.columns, side, strict=True)
    )
    rows = "".join(
        f"<tr>{''.join(f'<td{attribute}>{inline(cell)}</td>' for cell, attribute in zip(row, side, strict=True))}</tr>"
        for row in block.rows
    )
    caption = f"<caption>{escape(block.caption)}</caption>" if block.caption else ""
    return f'<div class="wide" tabindex="0"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _figure(block: page.Figure, _: int, report: AuditReport) -> str:
    drawings = figures.drawings(report)
    figure = drawings[block.name].figure
    drawing = _screen_figure.compact(_plots.write_screen(figure), _own(drawings, block.name))
    return _frame(drawing.removesuffix("</svg>") + _scores.spots(report, block.name, figure) + "</svg>", block)


def _frame(drawing: str, block: page.Figure) -> str:
    # for a screen reader the drawing is one picture with a sentence, not its hundreds of texts
    labels = drawing.replace("<svg", f'<svg role="img" aria-label="{escape(block.alt)}"', 1)
    return f"<figure>{labels}<figcaption>{escape(block.caption)}</figcaption></figure>"


def _drawing(svg: bytes, prefix: str) -> str:
    """A drawing without its prologue, its identifiers behind a prefix that no other drawing of the page shares."""
    plain = _METADATA.sub(b"", _PROLOGUE.sub(b"", svg)).decode()
    plain = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}\1"', plain)
    return re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", plain)


def _own(drawings: Mapping[str, object], name: str) -> str:
    """Return what the identifiers of a drawing begin with: its number, as names may differ in letters that none can hold."""
    return f"drawing-{list(drawings).index(name)}-"


def _numbers(block: page.Numbers, *_: Any) -> str:
    cards = "".join(
        f'<div class="card"><span class="{item.tone.value}">{escape(item.label)}<b>{escape(item.value)}</b></span>'
        f"{escape(item.detail)}</div>"
        for item in block.items
    )
    return f'<div class="cards">{cards}</div>'


def _verdict(block: page.Verdict, *_: Any) -> str:
    text = "".join(f"<p>{inline(text)}</p>" for text in block.text)
    return (
        f'<div class="answer"><em>{escape(block.question)}</em><strong class="word">{escape(block.word)}</strong>{text}</div>'
    )


def _definitions(items: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{text}</dd>' for name, text in items)}</dl>"


def _missing(block: page.Missing, *_: Any) -> str:
    return f'<p class="missing"><strong class="open">{escape(say("document.missing"))}</strong> {escape(block.what)}</p>'


FORMULAS = {"dp": "Pr[M(D) ∈ S] ≤ e<sup>ε</sup> Pr[M(D′) ∈ S] + δ"}

# how each block is written; the contents are links of the page itself, and nobody signs a screen
WRITERS: dict[type, Callable[..., str]] = {
    page.Paragraph: lambda block, *_: f"<p>{inline(block.text)}</p>",
    page.Heading: lambda block, level, *_: f"<h{level}>{escape(block.text)}</h{level}>",
    page.Table: _table,
    page.Figure: _figure,
    page.Numbers: _numbers,
    page.Verdict: _verdict,
    page.Facts: lambda block, *_: _definitions((name, inline(text)) for name, text in block.items),
    page.Contents: lambda *_: "",
    page.Quote: lambda block, *_: f"<blockquote>{escape(block.text)}</blockquote>",
    page.Formula: lambda block, *_: f"<p><i>{FORMULAS[block.name]}</i></p>",
    page.Terms: lambda block, *_: _definitions((term, escape(meaning)) for term, meaning in block.items),
    page.Items: lambda block, *_: f"<ul>{''.join(f'<li>{inline(text)}</li>' for text in block.items)}</ul>",
    page.Missing: _missing,
    page.Signature: lambda *_: "",
}

PLUGIN = Html
