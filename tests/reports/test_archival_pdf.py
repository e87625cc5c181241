"""The PDF compared with the rules of veraPDF for PDF/A-3, by a validator that is not the generator's.

The validator of pikepdf checks a part of the standard, at level b; its remarks on other parts are listed
here with the reason why each is no fault. Level a (tags) and PDF/UA are in `test_accessible_pdf.py`.
"""

from __future__ import annotations

import io
import re
from functools import cache
from typing import Any

import pytest

import reports
from tests.reports import sample

pikepdf = pytest.importorskip("pikepdf", reason="validating PDF/A needs the extra 'dev'")
pdfa = pytest.importorskip("pikepdf.pdfa", reason="validating PDF/A needs pikepdf[pdfa] of the extra 'dev'")

pytestmark = pytest.mark.slow

NOT_CHECKED = (
    r"CFF FDArray FontMatrix is not supported",  # fonts with CID keys: the Chinese ones and the serif
    r"/CIDSet on a CIDFontType2 subset is not checked",
    r"content of structured XMP property xmpMM:History is not checked",
)
NO_FAULTS = (
    (
        r"^\[violation\] pikepdf:schema-(LinkAnnot|OutlineItem) .*/Dest: '\d+ 0 R' is not valid",
        "a destination may be an indirect object",
    ),
    (
        r"^\[violation\] pikepdf:schema-PageLabelsNode .*/Nums\[\d+\]: '\d+ 0 R' is not valid",
        "a page label may be an indirect object, see the test below",
    ),
    (r"XMP (namespace|property) (xmpTPg|pdfaExtension|pdfaSchema|pdfaProperty|pdfuaid)", "declared, see the test below"),
    (r"pdfaid:conformance is 'A', expected 'B'", "level a holds all that level b asks for"),
)


@cache
def document(language: str) -> bytes:
    return next(iter(reports.render(sample.scores(), ("pdf",), language).values()))


def faults(content: bytes) -> list[str]:
    """The validator's findings, without remarks on parts that it does not check and remarks on no fault."""
    allowed = [*NOT_CHECKED, *(pattern for pattern, _ in NO_FAULTS)]
    result = [str(finding) for finding in pdfa.validate_written(io.BytesIO(content), "3b").findings]
    return [text for text in result if not any(re.search(pattern, text) for pattern in allowed)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_document_keeps_the_rules_of_the_archive(language: str) -> None:
    assert faults(document(language)) == []


def test_what_is_not_predefined_is_declared() -> None:
    """ISO 19005-3, 6.6.2.3: a property outside of the predefined schemas needs a description in the file itself."""
    with pikepdf.open(io.BytesIO(document("en"))) as pdf:
        xmp = pdf.Root.Metadata.read_bytes().decode()
    assert re.search(r"pdfaSchema:namespaceURI>http://www\.aiim\.org/pdfua/ns/id/<", xmp)
    assert re.search(r"pdfaProperty:name>part<", xmp)


def test_every_page_label_is_a_label_wherever_it_stands() -> None:
    """ISO 32000-1, 7.9.7 and 12.4.2: from the first page on, styles of numbering and prefixes, and nothing else."""
    with pikepdf.open(io.BytesIO(document("en"))) as pdf:
        numbers = list(pdf.Root.PageLabels.Nums)  # pikepdf resolves what the validator sees as a reference
        starts = [int(start) for start in numbers[::2]]
        assert starts[0] == 0 and starts == sorted(set(starts)) and starts[-1] < len(pdf.pages)
        for label in numbers[1::2]:
            assert isinstance(label, pikepdf.Dictionary)
            entries = dict(label.items())
            assert entries.keys() <= {"/Type", "/S", "/P", "/St"}, entries
            assert entries.get("/Type", pikepdf.Name.PageLabel) == pikepdf.Name.PageLabel
            assert "/S" not in entries or str(entries["/S"]) in ("/D", "/R", "/r", "/A", "/a")
            assert "/P" not in entries or isinstance(entries["/P"], pikepdf.String)
            assert int(entries.get("/St", 1)) >= 1
        assert len([page.label for page in pdf.pages]) == len({page.label for page in pdf.pages})


def _without_profile(pdf: Any) -> None:
    del pdf.Root.OutputIntents


def _with_script(pdf: Any) -> None:
    pdf.Root.OpenAction = pikepdf.Dictionary(S=pikepdf.Name.JavaScript, JS=pikepdf.String("app.alert(1)"))


def _without_fonts(pdf: Any) -> None:
    for item in pdf.objects:
        if isinstance(item, pikepdf.Dictionary) and item.get("/Type") == "/FontDescriptor":
            for key in ("/FontFile", "/FontFile2", "/FontFile3"):
                if key in item:
                    del item[key]


def _with_an_attachment_of_no_relation(pdf: Any) -> None:
    for item in pdf.Root.AF:
        del item["/AFRelationship"]


@pytest.mark.parametrize("break_it", [_without_profile, _with_script, _without_fonts, _with_an_attachment_of_no_relation])
def test_a_document_that_breaks_a_rule_is_found(break_it: Any) -> None:
    with pikepdf.open(io.BytesIO(document("en"))) as pdf:
        break_it(pdf)
        stream = io.BytesIO()
        pdf.save(stream)
    assert faults(stream.getvalue()), break_it.__name__
