"""What accountants answered to the battery, kept in a folder: one file a subject, so that no one is asked twice.

Judging needs no library, so a page can be made from answers that were given in several environments.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.accounting import resolve
from audit.accounting.regression import files, suite
from audit.accounting.regression.files import question
from audit.accounting.regression.suite import Case, CaseAnswer, Result
from audit.core.adjacency import Adjacency
from audit.core.claims import Side
from audit.core.errors import DataError, UnsupportedMechanism
from audit.core.event_forms import number, plain
from audit.core.events import Gaussian
from audit.core.protocols import Accountant

_SAVE_INTERVAL = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the battery said about one subject, or why it could not be asked.

    Attributes:
        side: which side of the true epsilon its figures claim to be on.
        seconds: of CPU that a case was given.
    """

    spec: str
    name: str
    source: str = ""
    side: Side = "upper"
    absent: str = ""
    seconds: float = suite.SECONDS
    results: tuple[Result, ...] = ()


def collect(
    spec: str,
    name: str,
    folder: Path,
    *,
    seconds: float,
    fresh: bool = False,
    ask: bool = True,
    progress: Callable[[Case], None] | None = None,
) -> Run:
    """The judged answers of one subject: those kept in the folder as far as they fit, the others asked for now.

    A kept answer fits if its version of the subject and its question are those of today. If the subject is not
    installed, or no one is to be asked (`ask` is false), what was kept is judged.

    Args:
        seconds: of CPU for a case.
        fresh: if True, everything is asked again.
        progress: is called with each case before it is asked.
    """
    cases, path = suite.load(), folder / f"{re.sub('[^a-z0-9]+', '-', spec)}.json"
    cache = {} if fresh else _read(path)
    accountant = resolve.subject(spec)
    side = resolve.find_side(accountant)
    source, absent = _source(accountant) if ask else ("", "nobody was asked here, and nothing is kept")
    if not source:
        if not cache:
            return Run(spec=spec, name=name, side=side, absent=absent)
        answers = {case.id: _decode(cache["answers"][case.id]) for case in cases if _fits(cache, case, cache["source"], 0.0)}
        return _judge(spec, name, cache["source"], side, float(cache["seconds"]), cases, answers)
    seconds = max(seconds, float(cache["seconds"])) if cache else seconds  # never less than was given before
    answers = {}
    for count, case in enumerate(cases):
        reusable = _fits(cache, case, source, seconds)
        if progress is not None and not reusable:
            progress(case)
        answers[case.id] = _decode(cache["answers"][case.id]) if reusable else suite.ask(accountant, case, seconds=seconds)
        if count % _SAVE_INTERVAL == 0 and not reusable:
            _write(path, spec, source, seconds, cases, answers)
    _write(path, spec, source, seconds, cases, answers)
    return _judge(spec, name, source, side, seconds, cases, answers)


def _judge(
    spec: str, name: str, source: str, side: Side, seconds: float, cases: Sequence[Case], answers: Mapping[str, CaseAnswer]
) -> Run:
    results = tuple(suite.settle(case, answers[case.id], side) for case in cases if case.id in answers)
    return Run(spec=spec, name=name, source=source, side=side, seconds=seconds, results=results)


def _source(accountant: Accountant) -> tuple[str, str]:
    """The source that a claim of this accountant states on an everyday case, and why there is none if it is empty."""
    event: Any = Gaussian(noise_multiplier=2.0)
    try:
        return accountant.claim(event, delta=1e-5, adjacency=Adjacency.ADD_REMOVE).source, ""
    except UnsupportedMechanism as error:
        return "", str(error)


def _fits(cache: Mapping[str, Any], case: Case, source: str, seconds: float) -> bool:
    if not cache or cache["source"] != source or case.id not in cache["answers"]:
        return False
    answer = cache["answers"][case.id]
    return bool(answer["question"] == question(case) and (answer.get("failure") != "late" or cache["seconds"] >= seconds))


def _decode(row: Mapping[str, Any]) -> CaseAnswer:
    return CaseAnswer(
        epsilons=tuple(number(epsilon) for epsilon in row["epsilons"]),
        failure=row.get("failure", ""),
        message=row.get("message", ""),
        seconds=row["seconds"],
    )


def _read(path: Path) -> dict[str, Any]:
    """The kept answers, {} if there are none."""
    if not path.exists():
        return {}
    try:
        cache = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the answers {path}: {error}; remove the file to run the cases again") from error
    if not isinstance(cache, dict) or not {"source", "seconds", "answers"} <= cache.keys():
        raise DataError(f"{path} holds no answers to the battery; remove the file to run the cases again")
    return cache


def _write(
    path: Path, spec: str, source: str, seconds: float, cases: Sequence[Case], answers: Mapping[str, CaseAnswer]
) -> None:
    """One line a case, so that a change shows as one."""
    head = {"subject": spec, "source": source, "seconds": seconds}
    lines = []
    for case in cases:
        if case.id not in answers:
            continue
        answer = answers[case.id]
        row: dict[str, Any] = {"question": question(case), "epsilons": [plain(value) for value in answer.epsilons]}
        if answer.failure:
            row |= {"failure": answer.failure, "message": answer.message[:200]}
        lines.append(f"  {json.dumps(case.id)}: {json.dumps({**row, 'seconds': round(answer.seconds, 3)})}")
    text = json.dumps(head)[:-1] + ', "answers": {\n' + ",\n".join(lines) + "\n}}\n"
    files.write(path, text.encode())
