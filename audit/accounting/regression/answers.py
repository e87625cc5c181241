"""What accountants answered to the battery, kept in a folder: one file a subject, so that nobody is asked twice.

Judging needs no library, so a page can be made from answers that were given in several environments.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.accounting import resolve
from audit.accounting.regression import files, suite
from audit.accounting.regression.suite import Answer, Case, Result
from audit.core.adjacency import Adjacency
from audit.core.errors import DataError, UnsupportedMechanism
from audit.core.event_forms import encode, number, plain
from audit.core.events import Gaussian
from audit.core.protocols import Accountant, Side

_SAVE_EVERY = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the battery said about one subject, or why it could not be asked.

    Attributes:
        side: which side of the true epsilon its figures claim to lie on.
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
    told: Callable[[Case], None] | None = None,
) -> Run:
    """The judged answers of one subject: those kept in the folder as far as they fit, the others asked for now.

    A kept answer fits where its version of the subject and its question are those of today. Where the subject is not
    installed, or nobody is to be asked (`ask` is false), what was kept is judged.

    Args:
        seconds: of CPU for a case.
        fresh: whether to ask everything again.
        told: is told of each case before it is asked.
    """
    cases, path = suite.load(), folder / f"{re.sub('[^a-z0-9]+', '-', spec)}.json"
    kept = {} if fresh else _read(path)
    accountant = resolve.subject(spec)
    side = resolve.side_of(accountant)
    source, absent = _source(accountant) if ask else ("", "nobody was asked here, and nothing is kept")
    if not source:
        if not kept:
            return Run(spec=spec, name=name, side=side, absent=absent)
        found = {case.id: _decode(kept["answers"][case.id]) for case in cases if _fits(kept, case, kept["source"], 0.0)}
        return _judged(spec, name, kept["source"], side, float(kept["seconds"]), cases, found)
    seconds = max(seconds, float(kept["seconds"])) if kept else seconds  # never less than was given before
    found = {}
    for count, case in enumerate(cases):
        known = _fits(kept, case, source, seconds)
        if told is not None and not known:
            told(case)
        found[case.id] = _decode(kept["answers"][case.id]) if known else suite.ask(accountant, case, seconds=seconds)
        if count % _SAVE_EVERY == 0 and not known:
            _write(path, spec, source, seconds, cases, found)
    _write(path, spec, source, seconds, cases, found)
    return _judged(spec, name, source, side, seconds, cases, found)


def _judged(
    spec: str, name: str, source: str, side: Side, seconds: float, cases: Sequence[Case], found: Mapping[str, Answer]
) -> Run:
    results = tuple(suite.settle(case, found[case.id], side) for case in cases if case.id in found)
    return Run(spec=spec, name=name, source=source, side=side, seconds=seconds, results=results)


def _source(accountant: Accountant) -> tuple[str, str]:
    """The source that a claim of this accountant states on an everyday case, and why there is none where it is empty."""
    event: Any = Gaussian(noise_multiplier=2.0)
    try:
        return accountant.claim(event, delta=1e-5, adjacency=Adjacency.ADD_REMOVE).source, ""
    except UnsupportedMechanism as error:
        return "", str(error)


def question(case: Case) -> str:
    asked = [[encode(one.event), plain(one.delta), str(one.adjacency)] for one in case.asks]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def _fits(kept: Mapping[str, Any], case: Case, source: str, seconds: float) -> bool:
    if not kept or kept["source"] != source or case.id not in kept["answers"]:
        return False
    answer = kept["answers"][case.id]
    return bool(answer["question"] == question(case) and (answer.get("failure") != "late" or kept["seconds"] >= seconds))


def _decode(stored: Mapping[str, Any]) -> Answer:
    return Answer(
        epsilons=tuple(number(one) for one in stored["epsilons"]),
        failure=stored.get("failure", ""),
        message=stored.get("message", ""),
        seconds=stored["seconds"],
    )


def _read(path: Path) -> dict[str, Any]:
    """The kept answers, {} where there are none."""
    if not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the answers {path}: {error}; remove the file to run the cases again") from error
    if not isinstance(stored, dict) or not {"source", "seconds", "answers"} <= stored.keys():
        raise DataError(f"{path} holds no answers to the battery; remove the file to run the cases again")
    return stored


def _write(path: Path, spec: str, source: str, seconds: float, cases: Sequence[Case], found: Mapping[str, Answer]) -> None:
    """One line a case, so that a change shows as one."""
    head = {"subject": spec, "source": source, "seconds": seconds}
    lines = []
    for case in cases:
        if case.id not in found:
            continue
        one = found[case.id]
        row: dict[str, Any] = {"question": question(case), "epsilons": [plain(value) for value in one.epsilons]}
        if one.failure:
            row |= {"failure": one.failure, "message": one.message[:200]}
        lines.append(f"  {json.dumps(case.id)}: {json.dumps({**row, 'seconds': round(one.seconds, 3)})}")
    text = json.dumps(head)[:-1] + ', "answers": {\n' + ",\n".join(lines) + "\n}}\n"
    files.write(path, text.encode())
