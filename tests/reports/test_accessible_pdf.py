"""Checks of the Matterhorn protocol (PDF/UA-1) and of PDF/A-3 that a script can do; the numbers are those of the protocol.

They stand in for a validator such as veraPDF, which needs Java. What only a person can judge (reading order, whether an
alternative text says what the figure shows) is not here.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

import reports
from tests.reports import sample

pypdf = pytest.importorskip("pypdf", reason="reading PDFs needs the extra 'dev'")

LANGUAGES = ("en", "zh")
STANDARD = {
    *(
        [
            "Document",
            "Part",
            "Art",
            "Sect",
            "Div",
            "BlockQuote",
            "Caption",
            "TOC",
            "TOCI",
            "Index",
            "NonStruct",
            "Private",
            "P",
            "H",
            "H1",
            "H2",
            "H3",
            "H4",
            "H5",
            "H6",
        ]
    ),
    *(
        [
            "L",
            "LI",
            "Lbl",
            "LBody",
            "Table",
            "TR",
            "TH",
            "TD",
            "THead",
            "TBody",
            "TFoot",
            "Span",
            "Quote",
            "Note",
            "Reference",
            "BibEntry",
            "Code",
            "Link",
            "Annot",
        ]
    ),
    *(["Figure", "Formula", "Form"]),
}


@cache
def reader(language: str) -> Any:
    content = reports.render(sample.scores(), ("pdf",), language)
    return pypdf.PdfReader(io.BytesIO(next(iter(content.values()))))


def root(language: str) -> Any:
    return reader(language).trailer["/Root"]


@cache
def elements(language: str) -> tuple[Any, ...]:
    """Every structure element, in reading order."""

    def walk(node: Any) -> Iterator[Any]:
        node = node.get_object()
        if isinstance(node, list):
            for child in node:
                yield from walk(child)
        elif isinstance(node, dict):
            if "/S" in node:
                yield node
            if "/K" in node:
                yield from walk(node["/K"])

    return tuple(walk(root(language)["/StructTreeRoot"]))


def kind(language: str, element: Any) -> str:
    """The standard type that an element has or is mapped to."""
    roles = root(language)["/StructTreeRoot"].get("/RoleMap", {})
    name = element["/S"]
    while name in roles and str(name)[1:] not in STANDARD:
        name = roles[name]
    return str(name)[1:]


def metadata(language: str) -> str:
    return str(root(language)["/Metadata"].get_object().get_data(), "utf-8")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("language", LANGUAGES)
def test_metadata_title_language_and_conformance(language: str) -> None:
    """06-001 to 06-004, 07-001, 07-002, 11-006; PDF/A-3: part, level, output intent, identifier."""
    xmp, catalog = metadata(language), root(language)
    assert re.search(r"<pdfuaid:part>1</|pdfuaid:part=\"1\"", xmp)
    assert re.search(r"<pdfaid:part>3</|pdfaid:part=\"3\"", xmp) and re.search(
        r"<pdfaid:conformance>A</|conformance=\"A\"", xmp
    )
    assert re.search(r"<dc:title>.*?<rdf:li[^>]*>[^<]+</rdf:li>", xmp, re.DOTALL)
    assert catalog["/ViewerPreferences"]["/DisplayDocTitle"] is not None and bool(
        catalog["/ViewerPreferences"]["/DisplayDocTitle"]
    )
    assert catalog["/Lang"] == language
    assert catalog["/OutputIntents"][0]["/S"] == "/GTS_PDFA1" and reader(language).trailer["/ID"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_document_is_tagged_with_standard_types(language: str) -> None:
    """01-005, 01-006, 02-001, 02-003, 02-004."""
    marks = root(language)["/MarkInfo"]
    assert marks["/Marked"].value is True and ("/Suspects" not in marks or marks["/Suspects"].value is False)
    assert len(elements(language)) > 100
    assert {kind(language, element) for element in elements(language)} <= STANDARD


@pytest.mark.parametrize("language", LANGUAGES)
def test_figures_and_formulas_have_alternative_texts(language: str) -> None:
    """13-004, 17-002."""
    pictures = [element for element in elements(language) if kind(language, element) in ("Figure", "Formula")]
    assert pictures and all(len(str(element.get("/Alt", ""))) > 10 for element in pictures)


@pytest.mark.parametrize("language", LANGUAGES)
def test_headings_begin_at_the_first_level_and_skip_none(language: str) -> None:
    """14-002, 14-003, 14-006."""
    levels = [int(name[1]) for element in elements(language) if re.fullmatch(r"H[1-6]", name := kind(language, element))]
    assert levels and levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))


@pytest.mark.parametrize("language", LANGUAGES)
def test_header_cells_say_what_they_head(language: str) -> None:
    """15-003."""
    headers = [element for element in elements(language) if kind(language, element) == "TH"]

    def scope(element: Any) -> bool:
        attributes = element.get("/A", {})
        sets = attributes if isinstance(attributes, list) else [attributes]
        return any(part.get_object().get("/Scope") in ("/Column", "/Row", "/Both") for part in sets)

    assert headers and all(scope(element) for element in headers)


@pytest.mark.parametrize("language", LANGUAGES)
def test_links_are_tagged_described_and_in_the_order_of_the_structure(language: str) -> None:
    """28-002, 28-004, 28-005, 28-008, 28-011, 28-012."""
    pages = reader(language).pages
    links = [note.get_object() for page in pages for note in page.get("/Annots", [])]
    assert links and all(link["/Subtype"] == "/Link" and "/StructParent" in link and link.get("/Contents") for link in links)
    assert all(page.get("/Tabs") == "/S" for page in pages if page.get("/Annots"))
    assert sum(kind(language, element) == "Link" for element in elements(language)) >= 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_font_is_embedded_and_maps_to_text(language: str) -> None:
    """10-001, 31-001 and following: embedded programs, ToUnicode; no font of the reader's machine is needed."""
    fonts = {}
    for page in reader(language).pages:
        for name, font in page["/Resources"].get("/Font", {}).items():
            fonts[name, font.get_object()["/BaseFont"]] = font.get_object()
    assert fonts
    for font in fonts.values():
        own = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
        descriptor = own["/FontDescriptor"].get_object()
        assert "/ToUnicode" in font and {"/FontFile", "/FontFile2", "/FontFile3"} & set(descriptor)
        assert re.match(r"/[A-Z]{6}\+", font["/BaseFont"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_encrypted_nothing_runs_and_the_attachments_are_described(language: str) -> None:
    """26-001, 21-001; PDF/A-3: no script or action, attached files with a relationship."""
    document, catalog = reader(language), root(language)
    assert not document.is_encrypted and not {"/AA", "/OpenAction"} & set(catalog) and "/JavaScript" not in catalog["/Names"]
    files = catalog["/Names"]["/EmbeddedFiles"]["/Names"][1::2]
    assert files and all({"/F", "/UF", "/AFRelationship", "/Desc"} <= set(file.get_object()) for file in files)
    assert len(catalog["/AF"]) == len(files)
