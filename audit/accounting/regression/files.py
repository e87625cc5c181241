"""What `audit accountant check` writes: JUnit, JSON rows, figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from audit.accounting.regression import explain
from audit.accounting.regression.suite import CaseFinding, Result
from audit.core import files
from audit.core.errors import ConfigError, OutputError

ResultsByName = Mapping[str, Sequence[Result]]


def junit(found_results: ResultsByName) -> bytes:
    """One suite an accountant, one test a case: WRONG fails, CRASH errs, UNSUPPORTED is skipped, LOOSE passes with a remark."""
    suites = ElementTree.Element("testsuites")
    for name, results in found_results.items():
        counts = {kind: sum(result.finding is kind for result in results) for kind in CaseFinding}
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=f"accountant {name}",
            tests=str(len(results)),
            failures=str(counts[CaseFinding.WRONG]),
            errors=str(counts[CaseFinding.CRASH]),
            skipped=str(counts[CaseFinding.UNSUPPORTED]),
            time=f"{sum(result.seconds for result in results):.3f}",
        )
        for result in results:
            _test(suite, name, result)
    ElementTree.indent(suites)
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True))


def _test(suite: ElementTree.Element, name: str, result: Result) -> None:
    test = ElementTree.SubElement(
        suite, "testcase", classname=f"{name}.{result.case.group}", name=result.case.id, time=f"{result.seconds:.3f}"
    )
    text = explain.paragraph(result, name)
    tag = {CaseFinding.WRONG: "failure", CaseFinding.CRASH: "error", CaseFinding.UNSUPPORTED: "skipped"}.get(result.finding)
    if tag is not None:
        ElementTree.SubElement(test, tag, message=result.message).text = text
    elif result.finding is CaseFinding.LOOSE:
        ElementTree.SubElement(test, "system-out").text = f"LOOSE: {result.message}"


def as_json(found_results: ResultsByName) -> dict[str, Any]:
    """Counts and one row a case for each accountant."""
    return {
        name: {
            "counts": {str(kind): sum(result.finding is kind for result in results) for kind in CaseFinding},
            "seconds": sum(result.seconds for result in results),
            "cases": [
                {
                    "id": result.case.id,
                    "group": result.case.group,
                    "finding": str(result.finding),
                    "claimed": result.epsilon,
                    "lower": result.case.lower,
                    "upper": result.case.upper,
                    "factor": result.factor,
                    "seconds": result.seconds,
                    "message": result.message,
                    **explain.fields(result, name),
                }
                for result in results
            ],
        }
        for name, results in found_results.items()
    }


def write(path: Path, content: bytes) -> None:
    """Write a file that others may read, completely or not; `OutputError` if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(path, content, mode=0o666)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error}") from error


def check_outputs(source: str | Path | None, outputs: Mapping[str, Path | None]) -> None:
    """Check, before any work is done, that no output would replace the file that is read; `ConfigError` if one would.

    Args:
        source: what the user named: a file, or a text that is none.
        outputs: files to write, by the option that named each.
    """
    for option, path in outputs.items():
        if source is not None and path is not None and files.is_same_file(path, source):
            raise ConfigError(f"{option} '{path}' is the file that is read; name another, it would be overwritten")


def write_figure(path: Path, images: tuple[bytes, bytes]) -> None:
    """Writes the SVG or the PNG of a drawing, as the file's name says; `ConfigError` for any other name."""
    if path.suffix.lower() not in (".svg", ".png"):
        raise ConfigError(f"'{path}' is neither .svg nor .png")
    write(path, images[0] if path.suffix.lower() == ".svg" else images[1])
