"""report.pdf: the sections set by typst, as PDF/A-3a and PDF/UA-1 with report.json attached. Equal reports give equal bytes."""

import dataclasses
import functools
import json
import re
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from audit import plugins
from audit.core.errors import DataError, OutputError
from audit.core.results import AuditReport
from audit.core.rounding import elide
from reports.formats import figures
from reports.formats import json as report_json
from reports.pages import blocks as page
from reports.pages.document import sections
from reports.words.language import ENGLISH, PACKAGE, current, say
from reports.words.translation import translated

# noto Serif CJK SC (OFL), cut to common characters; Droid Sans Fallback (Apache License 2.0) for all others
FONTS = Path(__file__).parents[1] / "pages" / "fonts"
LATIN = "Libertinus Serif"
FALLBACK = ("Droid Sans Fallback", "DejaVu Sans Mono")
SERIF = (LATIN, *FALLBACK)
REPLACEMENT = "?"
_DATE = datetime(2026, 1, 1, tzinfo=UTC)


def replace_glyphs(value: Any, lacking: Sequence[str]) -> Any:
    """The same texts, in whatever lists and mappings, with `REPLACEMENT` for each character that is lacking."""
    if isinstance(value, str):
        return "".join(REPLACEMENT if character in lacking else character for character in value)
    if isinstance(value, dict):
        return {key: replace_glyphs(inner, lacking) for key, inner in value.items()}
    return [replace_glyphs(inner, lacking) for inner in value] if isinstance(value, list | tuple) else value


def find_lacking(content: Any) -> list[str]:
    """The characters of all texts that no font of the document can show, ascending."""
    characters = set(json.dumps(content, ensure_ascii=False)) | _controls(content)
    return sorted(
        character
        for character in characters
        if not (" " <= character <= "~" or character in "\n\t") and not _can_be_set(character)
    )


def name_characters(characters: Sequence[str], limit: int = 8) -> str:
    """Code points in words, `U+1F600, U+0007 and 3 more`."""
    points = [f"U+{ord(character):04X}" for character in characters]
    return ", ".join(points[:limit]) + (f" and {len(points) - limit} more" if len(points) > limit else "")


def _controls(value: Any) -> set[str]:
    """Control characters, which JSON escapes."""
    if isinstance(value, str):
        return {item for item in value if item < " " or item == "\x7f"}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return set().union(*(_controls(item) for item in inner))


# only typst knows which characters it can set in PDF/A, so each is tried
@functools.lru_cache(maxsize=4096)
def _can_be_set(character: str) -> bool:
    typst = import_module("typst")
    fonts = json.dumps(list(SERIF))[1:-1]  # without brackets a list of JSON is one of typst
    page = f'#set document(title: "x")\n#set text(font: ({fonts}))\n#"\\u{{{ord(character):x}}}"'
    options = {"pdf_standards": ["a-3a"], "ignore_system_fonts": True, "font_paths": [str(FONTS)], "timestamp": _DATE}
    try:
        typst.compile(page.encode(), format="pdf", **options)
    except typst.TypstError:
        return False
    return True


FILE = "report.pdf"
TEMPLATE = Path(__file__).parents[1] / "pages" / "report.typ"
CONFIG = "config.resolved.yaml"
SECTIONS = "section-starts"  # the label of what the template says of where each section begins
TEMPLATE_WORDS = tuple(
    f"document.{word}" for word in ("title", "subject", "missing", "to_quote", "attached_report", "attached_config", "formula")
)
STANDARDS = ("a-3a", "ua-1")
MOST_BYTES = 256 * 2**20  # of an attached report; a hostile PDF cannot unpack to more
_LANGUAGE = re.compile(rb"<dc:language><rdf:Bag><rdf:li>([A-Za-z-]{2,20})</rdf:li>")
# repeats are bounded, so that a search of a hostile file takes no more than its length
_ATTACHMENT = re.compile(rb"/Type ?/EmbeddedFile[^>]{0,200}?/Subtype ?/application#2Fjson[ -~\s]{0,200}?>>\s?stream\r?\n")


class Pdf:
    """Renders report.pdf."""

    has_words: ClassVar[bool] = True

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """The document under the name report.pdf, or `OutputError`: never half of one."""
        return {FILE: typeset(report)}


def typeset(report: AuditReport, pages: Sequence[page.Section] | None = None) -> bytes:
    """The bytes of the PDF: all sections with report.json attached, or other pages about the report with nothing attached."""
    full = pages is None
    pages = sections(translated(report)) if pages is None else pages
    options = {"format": "pdf", "pdf_standards": list(STANDARDS), "timestamp": start_time(report)}
    pdf: bytes = _compile(report, pages, full, **options)
    return pdf


def page_images(report: AuditReport, pixels_per_inch: float = 100) -> list[bytes]:
    """Each page as PNG, for looking at and for the README."""
    pages = _compile(report, sections(translated(report)), True, format="png", ppi=pixels_per_inch)
    return [pages] if isinstance(pages, bytes) else list(pages)


def section_pages(report: AuditReport) -> dict[str, int]:
    """The page of report.pdf on which each section begins, by its title in the current language."""

    def query(template: str, **options: Any) -> Any:
        import typst

        return json.loads(typst.query(template, f"<{SECTIONS}>", field="value", **options))

    (places,) = _set(report, sections(translated(report)), True, query)
    return {place["title"]: int(place["page"]) for place in reversed(places)}  # of equal titles the first page


def attachment(document: bytes) -> bytes:
    """The report.json inside a PDF that `typeset` made; `DataError` if it is damaged, or not ours."""
    if not document.startswith(b"%PDF-"):
        raise DataError("the file is not a PDF; expected a report.pdf that audit wrote")
    attachments = list(_ATTACHMENT.finditer(document))
    if len(attachments) != 1:
        raise DataError(f"the PDF has {len(attachments)} attached JSON files; expected one, report.json, as audit writes it")
    unpack = zlib.decompressobj()  # an object stops at a limit; zlib.decompress unpacks all that a bomb holds
    try:
        return unpack.decompress(document[attachments[0].end() :], MOST_BYTES)
    except zlib.error as error:
        raise DataError(f"the report.json inside the PDF is damaged ({error}); use the PDF as it was written") from error


def language(document: bytes) -> str:
    """The name of the language that a PDF of ours declares; English if it declares none that there is."""
    declared = _LANGUAGE.search(document)
    tag = declared.group(1).decode() if declared else ENGLISH
    return tag if tag in plugins.names(PACKAGE) else ENGLISH


def start_time(report: AuditReport) -> datetime:
    """The time the audit was started, which is the only time a report knows."""
    try:
        time = datetime.fromisoformat(report.created)
    except ValueError as error:
        raise OutputError(f"created is {report.created!r}; expected an ISO time such as 2026-01-15T12:00:00Z") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def content(report: AuditReport, pages: Sequence[page.Section]) -> dict[str, Any]:
    """Return what the template is given: every text and every table cell, and no number left to format."""
    day = start_time(report)
    date = say("date", day=day.day, month=say("date.months").split("|")[day.month - 1], year=day.year)
    words = {key.removeprefix("document."): say(key) for key in TEMPLATE_WORDS}
    words |= {
        "lang": current().tag,
        "separator": say("separator.sentences"),
        "of": say("document.of", title=report.title),
        "of_short": say("document.of", title=elide(report.title, 70)),
        "audited": say("document.audited", title=report.title, date=date),
        "page": say("document.page", page="{page}", pages="{pages}"),
        "role": say("signature.line", role="{role}"),
    }
    return {
        "id": report.id,
        "title": report.title,
        "short_id": elide(report.id, 34),
        "created": date,
        "fonts": [LATIN, *current().fonts, *FALLBACK],
        "words": words,
        "date": [day.year, day.month, day.day],
        "sections": [
            {"title": section.title, "level": section.level, "blocks": [_block(block) for block in section.blocks]}
            for section in pages
        ],
    }


def _compile(report: AuditReport, pages: Sequence[page.Section], whole: bool, **options: Any) -> Any:
    def compile_document(template: str, **places: Any) -> Any:
        import typst

        return typst.compile(template, **places, **options)

    return _set(report, pages, whole, compile_document)


def _set(report: AuditReport, pages: Sequence[page.Section], whole: bool, use: Callable[..., Any]) -> Any:
    """Return what `use` makes of the template in a folder with all it reads; asked again without characters no font has."""
    try:
        import typst
    except ImportError as error:
        raise OutputError(f"{FILE} needs the package typst, which cannot be imported: {error}") from error
    with tempfile.TemporaryDirectory(prefix="audit-report-") as folder:
        root = Path(folder)
        _lay_out(root, report, pages, whole)

        def attempt(document: dict[str, Any]) -> Any:
            (root / "content.json").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
            places = {"root": str(root), "ignore_system_fonts": True, "font_paths": [str(FONTS)]}
            return use(str(root / TEMPLATE.name), **places)

        document = content(report, pages) | {"attached": whole, "config": whole and bool(report.config)}
        try:
            return attempt(document)
        except typst.TypstError as error:
            lacking = find_lacking(document)  # after a refusal only: each unusual character costs a compilation
            if not lacking:
                raise _refusal(error) from error
        try:
            return attempt(_without(document, lacking))
        except typst.TypstError as error:
            raise _refusal(error) from error


def _lay_out(root: Path, report: AuditReport, pages: Sequence[page.Section], whole: bool) -> None:
    """Write what the template reads beside its content: figures, and the attached files of a whole report."""
    (root / "figures").mkdir()
    # drawing takes longest, and pages such as the annex hold no figure
    has_figures = any(isinstance(block, page.Figure) for part in pages for block in part.blocks)
    for drawing in figures.drawings(translated(report)).values() if has_figures else ():
        (root / "figures" / f"{drawing.name}.svg").write_bytes(drawing.svg)
    if whole:
        (root / report_json.FILE).write_bytes(report_json.to_json(report))
    if whole and report.config:
        (root / CONFIG).write_text(report.config, encoding="utf-8")
    (root / TEMPLATE.name).write_bytes(TEMPLATE.read_bytes())  # a copy, as typst reads nothing outside of its root


def _refusal(error: Exception) -> OutputError:
    return OutputError(f"typst refuses {FILE}: {error}; the report holds something the template cannot set")


def _without(document: dict[str, Any], lacking: Sequence[str]) -> dict[str, Any]:
    """The content with characters that no font has replaced, and a last paragraph that says so."""
    readable: dict[str, Any] = replace_glyphs(document, lacking)
    text = say("document.glyphs", mark=REPLACEMENT, characters=name_characters(lacking))
    paragraph = _block(page.Paragraph(text=text))
    readable["sections"][-1]["blocks"].append(paragraph)
    return readable


def _block(block: page.Block) -> dict[str, Any]:
    kind = {"kind": type(block).__name__}
    match block:
        case page.Table():
            columns = [dataclasses.asdict(column) for column in block.columns]
            rows = [[_text(cell) for cell in row] for row in block.rows]
            return kind | {"caption": block.caption, "columns": columns, "rows": rows, "small": block.small}
        case page.Facts():
            return kind | {"items": [[name, _text(text)] for name, text in block.items]}
        case page.Verdict():
            return kind | dataclasses.asdict(block) | {"text": [_text(text) for text in block.text]}
        case page.Paragraph():
            return kind | dataclasses.asdict(block) | {"text": _text(block.text)}
        case page.Items():
            return kind | {"items": [_text(item) for item in block.items]}
        case _:
            return kind | dataclasses.asdict(block)


def _text(text: page.Text) -> list[dict[str, str]]:
    plain = []
    for piece in page.pieces(text):
        match piece:
            case page.Mono(text=inner):
                plain.append({"style": "mono", "text": inner})
            case page.Strong(text=inner):
                plain.append({"style": "strong", "text": inner})
            case page.Mark(text=inner, tone=tone):
                plain.append({"style": "mark", "text": inner, "tone": tone.value})
            case str():
                plain.append({"style": "plain", "text": piece})
    return plain


PLUGIN = Pdf
