"""What `audit accountant check` writes: JUnit, JSON rows, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from audit.accounting.regression.suite import Finding, Result
from audit.core.errors import ConfigError, OutputError

Found = Mapping[str, Sequence[Result]]


def junit(found: Found) -> bytes:
    """One suite an accountant, one test a case: WRONG fails, CRASH errs, UNSUPPORTED is skipped, LOOSE passes with a remark."""
    suites = ElementTree.Element("testsuites")
    for name, results in found.items():
        counts = {kind: sum(one.finding is kind for one in results) for kind in Finding}
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=f"accountant {name}",
            tests=str(len(results)),
            failures=str(counts[Finding.WRONG]),
            errors=str(counts[Finding.CRASH]),
            skipped=str(counts[Finding.UNSUPPORTED]),
            time=f"{sum(one.seconds for one in results):.3f}",
        )
        for one in results:
            _test(suite, name, one)
    ElementTree.indent(suites)
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True))


def _test(suite: ElementTree.Element, name: str, one: Result) -> None:
    test = ElementTree.SubElement(
        suite, "testcase", classname=f"{name}.{one.case.group}", name=one.case.id, time=f"{one.seconds:.3f}"
    )
    text = f"{one.message}\nexpected because: {one.case.reason}\ncatches: {one.case.catches}"
    tag = {Finding.WRONG: "failure", Finding.CRASH: "error", Finding.UNSUPPORTED: "skipped"}.get(one.finding)
    if tag is not None:
        ElementTree.SubElement(test, tag, message=one.message).text = text
    elif one.finding is Finding.LOOSE:
        ElementTree.SubElement(test, "system-out").text = f"LOOSE: {one.message}"


def as_json(found: Found) -> dict[str, Any]:
    """Counts and one row a case for each accountant."""
    return {
        name: {
            "counts": {str(kind): sum(one.finding is kind for one in results) for kind in Finding},
            "seconds": sum(one.seconds for one in results),
            "cases": [
                {
                    "id": one.case.id,
                    "group": one.case.group,
                    "finding": str(one.finding),
                    "claimed": one.claimed,
                    "lower": one.case.lower,
                    "upper": one.case.upper,
                    "factor": one.factor,
                    "seconds": one.seconds,
                    "message": one.message,
                }
                for one in results
            ],
        }
        for name, results in found.items()
    }


def write(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all.

    Raises:
        OutputError: it cannot be written.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error}") from error


def write_figure(path: Path, drawn: tuple[bytes, bytes]) -> None:
    """Writes the SVG or the PNG of a drawing, as the file's name says."""
    if path.suffix.lower() not in (".svg", ".png"):
        raise ConfigError(f"'{path}' is neither .svg nor .png")
    write(path, drawn[0] if path.suffix.lower() == ".svg" else drawn[1])
