"""What `audit accountant check` writes: JUnit, JSON rows, figures."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from audit.accounting.regression import explain
from audit.accounting.regression.suite import Case, CaseFinding, Result
from audit.core import files
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.event_forms import encode, number, plain

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


def question(case: Case) -> str:
    """Return a digest of what a case asks: a figure in a file is of today's case only if this is the same."""
    questions = [[encode(ask.event), plain(ask.delta), str(ask.adjacency)] for ask in case.asks]
    return hashlib.sha256(json.dumps(questions, sort_keys=True).encode()).hexdigest()[:16]


def make_record(results_by_name: Mapping[str, Sequence[Result]]) -> bytes:
    """Return the file with every figure: by accountant and case, one line each; of a case without any, its finding."""
    blocks = []
    for name, results in results_by_name.items():
        rows = [
            f"  {json.dumps(result.case.id)}: {json.dumps({'question': question(result.case), 'answer': _answer(result)})}"
            for result in results
        ]
        blocks.append(f" {json.dumps(name)}: {{\n" + ",\n".join(rows) + "\n }")
    return ("{\n" + ",\n".join(blocks) + "\n}\n").encode()


def _answer(result: Result) -> list[object] | str:
    return [plain(claim) for claim in result.claims] or str(result.finding)


def compare(path: Path, name: str, results: Sequence[Result], tolerance: float) -> tuple[Result, ...]:
    """Return the figures that are other than the file says, by more than `tolerance` relative, as findings of kind "method".

    A case that the file does not have, or that asks something else today, says nothing.

    Raises:
        ConfigError: a tolerance below 0.
        DataError: the file is missing, of another form, or has no figures of this accountant that could be compared.
    """
    if not tolerance >= 0:
        raise ConfigError(f"--tolerance is {tolerance}; expected a relative difference of at least 0, such as 1e-9")
    try:
        rows = files.read_json(path)[name]
        record = {case: (row["question"], row["answer"]) for case, row in rows.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} holds no figures of '{name}' ({error}); `audit accountant check -a {name} --record` makes such a file"
        ) from error
    results_on_file = [result for result in results if record.get(result.case.id, ("", ""))[0] == question(result.case)]
    if not results_on_file:
        raise DataError(f"{path}: none of its figures of '{name}' answer a case that was asked now; record them anew")
    return tuple(
        change for result in results_on_file if (change := _change(result, record[result.case.id][1], tolerance)) is not None
    )


def _change(result: Result, before: object, tolerance: float) -> Result | None:
    answer = _answer(result)
    if isinstance(before, list) and isinstance(answer, list) and len(before) == len(answer):
        pairs = [(number(first), number(second)) for first, second in zip(before, answer, strict=True)]
        if all(_is_same(first, second, tolerance) for first, second in pairs):
            return None
    elif before == answer:
        return None
    case = dataclasses.replace(
        result.case,
        id=f"change-{result.case.id}",
        kind="method",
        reason=f"recorded: {before}",
        catches="a figure that changed",
        lower=0.0,  # the bracket is not what it is measured by
        upper=math.inf,
    )
    message = f"answers {answer}; {before} was recorded{_share(before, answer)}"
    return dataclasses.replace(result, case=case, finding=CaseFinding.WRONG, message=message)


def _share(before: object, answer: object) -> str:
    """Return in per cent how far one figure has moved, "" if there are several or none."""
    if not (isinstance(before, list) and isinstance(answer, list) and len(before) == len(answer) == 1):
        return ""
    first, second = number(before[0]), number(answer[0])
    return f" ({100 * (second / first - 1):+.3g} %)" if first and math.isfinite(first) and math.isfinite(second) else ""


def _is_same(first: float, second: float, tolerance: float) -> bool:
    return first == second or (math.isnan(first) and math.isnan(second)) or abs(first - second) <= tolerance * abs(first)
