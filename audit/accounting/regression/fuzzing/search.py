"""The search itself: what is wrong is made small and kept as a case with a sentence.

A stratum gets time as the root of what one of its questions costs: a dear one more than a cheap one, and fewer questions.
"""

import dataclasses
import functools
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit.accounting.accountants.reference import Reference
from audit.accounting.regression import explain, files, suite
from audit.accounting.regression.explain import question_text
from audit.accounting.regression.fuzzing.draws import Draws
from audit.accounting.regression.fuzzing.schema import SCHEMA_STRATA
from audit.accounting.regression.fuzzing.shrinking import shrunk
from audit.accounting.regression.fuzzing.strata import STRATA, Drawn, QuestionPair
from audit.accounting.regression.suite import Case, CaseFinding, ClaimQuestion, Result
from audit.accounting.resolve import find_side
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import encode, plain
from audit.core.protocols import Accountant

_TOLERANCE = 1e-3  # relative width at which brackets stop being refined


@functools.lru_cache(maxsize=4096)
def ends(question: ClaimQuestion) -> tuple[float, float] | None:
    """Return the bracket on the epsilon of a question, None if there is none."""
    oracle = Reference(tolerance=_TOLERANCE)
    try:
        (low, high), doubt = oracle.explain(question.event, delta=question.delta, adjacency=question.adjacency)
    except UnsupportedMechanism:
        return None
    return None if doubt else (low, high)


def without_bracket(drawn: Drawn) -> Case:
    """Return what is asked, without any bracket."""
    asks = (drawn.first, drawn.second) if isinstance(drawn, QuestionPair) else (drawn,)
    kind = "relation" if isinstance(drawn, QuestionPair) else "bracket"
    return Case(id="unproved", group="fuzz", kind=kind, asks=asks, reason="nothing yet", catches="nothing yet")


def make_case(drawn: Drawn, stratum: str) -> Case | None:
    """Return the case that a question makes, None if nothing is proved about it."""
    if isinstance(drawn, QuestionPair):
        return _comparison(drawn, stratum)
    bracket = ends(drawn)
    if bracket is None:
        return None
    return Case(
        id=_name(stratum, drawn),
        group="fuzz",
        kind="bracket",
        asks=(drawn,),
        lower=bracket[0],
        upper=bracket[1],
        reason="bracket of the reference, computed when the case was drawn",
        catches=f"something of '{stratum}' that a search found",
    )


def _comparison(drawn: QuestionPair, stratum: str) -> Case | None:
    first, second = ends(drawn.first), ends(drawn.second)
    if first is None or second is None:
        return None
    return Case(
        id=_name(stratum, drawn.first, drawn.second),
        group="fuzz",
        kind="relation",
        asks=(drawn.first, drawn.second),
        lower=drawn.low,
        upper=drawn.high,
        floors=(first[0], second[0]),
        tolerance=drawn.tolerance,
        differ=drawn.differ,
        reason=drawn.relation,
        catches=f"something of '{stratum}' that a search found",
    )


def _name(stratum: str, *questions: ClaimQuestion) -> str:
    rows = [[encode(question.event), plain(question.delta), str(question.adjacency)] for question in questions]
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:10]
    return f"fuzz-{stratum.lower().replace(' ', '-')}-{digest}"


_REFUSALS, _WRAPPED_REFUSALS = 3, 12  # UNSUPPORTED so often in a row ends a stratum; the latter if its events are wrapped
_SHRINKING = 10.0  # seconds of CPU that making one finding small may take
_SECONDS_PER_QUESTION = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzFinding:
    """What a search found: a small case, what the accountant says in it, and the sentence of a bug report."""

    stratum: str
    case: Case
    result: Result
    sentence: str

    @property
    def is_unsafe(self) -> bool:
        """True if a claim is on the wrong side of the truth, and does not only break a relation."""
        return self.result.finding is CaseFinding.WRONG


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a search did.

    Attributes:
        crashes: the first error of each stratum that had one.
    """

    findings: tuple[FuzzFinding, ...]
    questions: dict[str, int]
    refusals: tuple[str, ...]
    crashes: dict[str, str]


@dataclass(slots=True)
class _Lane:
    """One stratum under way."""

    name: str
    draws: Draws
    cost: float = 0.0
    questions: int = 0
    refusals: int = 0
    answers: int = 0
    is_open: bool = True
    crash: str = ""

    @property
    def most_refusals(self) -> int:
        """Return the number of refusals without any answer that ends it."""
        return _WRAPPED_REFUSALS if self.name in SCHEMA_STRATA else _REFUSALS


def search(
    accountant: Accountant,
    *,
    seconds: float,
    seed: int = 0,
    most: int | None = None,
    progress: Callable[[FuzzFinding], None] | None = None,
) -> Search:
    """Look for questions that an accountant answers wrongly, until `seconds` of CPU are over; `ConfigError` for no time, or no
    questions.

    Args:
        most: findings after which to stop; None for no limit. A stratum ends with its first one.
    """
    if not seconds > 0 or (most is not None and most < 1):
        raise ConfigError(f"a search of {seconds:g} seconds for {most} findings; expected some time and at least one finding")
    lanes = [_Lane(name, Draws(np.random.Generator(np.random.PCG64([seed, place])))) for place, name in enumerate(STRATA)]
    end = time.process_time() + seconds
    findings: list[FuzzFinding] = []
    while time.process_time() < end and (most is None or len(findings) < most):
        candidates = [lane for lane in lanes if lane.is_open]
        if not candidates:
            break
        lane = min(candidates, key=lambda lane: lane.cost * lane.questions)
        start = time.process_time()
        finding = _ask(accountant, lane)
        lane.cost += time.process_time() - start
        if finding is not None:
            findings.append(finding)
            if progress is not None:
                progress(finding)
    return Search(
        findings=tuple(findings),
        questions={lane.name: lane.questions for lane in lanes},
        refusals=tuple(lane.name for lane in lanes if lane.refusals and not lane.answers),
        crashes={lane.name: lane.crash for lane in lanes if lane.crash},
    )


def _ask(accountant: Accountant, lane: _Lane) -> FuzzFinding | None:
    """One question of a stratum; the finding, if it is one."""
    drawn = STRATA[lane.name](lane.draws)
    result = _result(accountant, drawn, lane.name)
    lane.questions += 1
    if result is None:
        return None
    if result.finding is CaseFinding.UNSUPPORTED:
        lane.refusals += 1
        lane.is_open = lane.answers > 0 or lane.refusals < lane.most_refusals
        return None
    if result.finding is CaseFinding.CRASH:
        lane.crash = lane.crash or f"{_question_text(drawn)}: {result.message}"
        lane.refusals += 1
        lane.is_open = lane.answers > 0 or lane.refusals < lane.most_refusals
        return None
    lane.answers += 1
    if not _is_bad(result):
        return None
    lane.is_open = False
    return _finding(accountant, lane.name, drawn, result.finding)


def _is_bad(result: Result) -> bool:
    return result.finding is CaseFinding.WRONG or (result.case.kind == "relation" and result.finding is CaseFinding.LOOSE)


def _result(accountant: Accountant, drawn: Drawn, stratum: str) -> Result | None:
    """Return what a question says about the accountant; the costly bracket is computed only where there is an answer."""
    question = without_bracket(drawn)
    answer = suite.ask(accountant, question, seconds=_SECONDS_PER_QUESTION)
    case = question if answer.failure else make_case(drawn, stratum)
    return None if case is None else suite.settle(case, answer, find_side(accountant))


def _finding(accountant: Accountant, stratum: str, drawn: Drawn, kind: CaseFinding) -> FuzzFinding | None:
    """The finding made small; None if it does not stay one when the bracket is computed anew."""
    end = time.process_time() + _SHRINKING

    def fails(candidate: Drawn) -> bool:
        if time.process_time() > end or _is_idle(candidate):
            return False
        result = _result(accountant, candidate, stratum)
        return result is not None and result.finding is kind and _is_bad(result)

    small = shrunk(drawn, fails)
    case = make_case(small, stratum)
    if case is None:
        return None
    result = suite.judge(accountant, case, seconds=_SECONDS_PER_QUESTION)
    return FuzzFinding(stratum=stratum, case=case, result=result, sentence=sentence(result)) if _is_bad(result) else None


def _is_idle(candidate: Drawn) -> bool:
    """True if two questions have become the same, so that a comparison says nothing."""
    return isinstance(candidate, QuestionPair) and candidate.first == candidate.second


def sentence(result: Result) -> str:
    """Return what one would write in a bug report."""
    case = result.case
    if case.kind == "bracket":
        short = explain.shortfall_text(result)
        return (
            f"For {question_text(case.asks[0])} it states epsilon {result.epsilon:.9g}; the truth lies between "
            f"{case.lower:.9g} and {case.upper:.9g}{f' ({short})' if short else ''}."
        )
    first, second = (question_text(ask) for ask in case.asks)
    floors = f"; the truth is at least {case.floors[0]:.9g} and {case.floors[1]:.9g}" if case.floors else ""
    return f"Of {first} and of {second} it {result.message}, because {case.reason}{floors}."


def _question_text(drawn: Drawn) -> str:
    return question_text(drawn.first if isinstance(drawn, QuestionPair) else drawn)


def append(path: Path, findings: Sequence[FuzzFinding]) -> int:
    """Add the cases of findings to a file that the battery reads, each once; return how many the file has. Raises `DataError`
    if there is a file, and it is none of cases.
    """
    cases = list(suite.load(path)) if path.exists() else []
    known_ids = {case.id for case in cases}
    fresh = [finding for finding in findings if finding.case.id not in known_ids]
    rows = [*(_row(case) for case in cases), *(_row(finding.case, finding.sentence) for finding in fresh)]
    text = json.dumps({"version": suite.VERSION, "command": "audit accountant fuzz", "cases": rows}, indent=1)
    files.write(path, f"{text}\n".encode())
    return len(rows)


def _row(case: Case, note: str = "") -> dict[str, object]:
    asks = [{"event": encode(ask.event), "delta": plain(ask.delta), "adjacency": str(ask.adjacency)} for ask in case.asks]
    row = {entry.name: getattr(case, entry.name) for entry in dataclasses.fields(case)}
    numbers = {name: plain(row[name]) for name in ("lower", "upper", "tolerance", "precision")}
    lists = {"floors": [plain(floor) for floor in case.floors], "known": list(case.known), "asks": asks}
    return row | numbers | lists | ({"catches": note} if note else {})
