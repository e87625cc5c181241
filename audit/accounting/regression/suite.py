"""The accountant regression battery: cases as data, and the judge that runs an accountant over them.

A case asks for a claim and holds it against a proven bracket ("bracket"), holds two claims of the same accountant against
each other ("relation"), or gives arguments that must be refused ("refusal"). The data file also caches the brackets;
`benchmarks/accountant_battery.py` computes them again.
"""

import dataclasses
import importlib.resources
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from audit.accounting.regression.sandbox import TooLongError, limits
from audit.accounting.resolve import find_side
from audit.core.adjacency import Adjacency
from audit.core.claims import Side
from audit.core.errors import DataError, UnsupportedMechanism
from audit.core.event_forms import decode, number
from audit.core.events import Event
from audit.core.protocols import Accountant

VERSION = 1
_SLACK = 1e-9  # relative: a claim may be this far under a proven end and still be called rounding
SECONDS = 60.0
_BYTES = 4 << 30


class CaseFinding(StrEnum):
    """What a case says about an accountant."""

    WRONG = "WRONG"  # below what is provably true, or a number for nonsense: a privacy bug
    LOOSE = "LOOSE"  # safe, and above the bracket by more than the case's tolerance
    EXACT = "EXACT"  # inside the bracket, or the relation holds, or nonsense was refused
    UNSUPPORTED = "UNSUPPORTED"
    CRASH = "CRASH"  # raised, or gave no answer in time


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimQuestion:
    """One claim that is asked for. `event` may hold values that its class would refuse, for cases of refusal."""

    event: Event
    delta: float
    adjacency: Adjacency


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of the battery.

    Attributes:
        id: short name, unique, stable over versions.
        kind: "bracket", "relation" or "refusal".
        lower, upper: proven ends of the true epsilon (bracket); of claim 1 over claim 0 (relation).
        floors: proven lower ends of the claims of a relation: a relation that fails is WRONG if a claim is below its own.
        differ: whether a relation fails as well if both claims are the same, and neither 0 nor infinite.
        tolerance: relative distance above the upper end that still counts as exact.
        known: subject, version and claim of released libraries that are known to fail it.
    """

    id: str
    group: str
    kind: str
    asks: tuple[ClaimQuestion, ...]
    lower: float = 0.0
    upper: float = math.inf
    floors: tuple[float, ...] = ()
    differ: bool = False
    tolerance: float = 0.01
    reason: str
    catches: str
    precision: float = 2e-4
    known: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one case: the finding, the claim (or ratio), its factor to the upper end, CPU seconds, in words why.

    `claims`: every epsilon that was stated, one a question.
    """

    case: Case
    finding: CaseFinding
    epsilon: float = math.nan
    factor: float = math.nan
    seconds: float = 0.0
    message: str = ""
    claims: tuple[float, ...] = ()


def load(path: Path | None = None) -> tuple[Case, ...]:
    """The cases of the data file that comes with the package, or of another one; `DataError` if the file is missing, malformed
    or of another version.
    """
    source = path or importlib.resources.files("audit.accounting.regression") / "cases.json"
    try:
        return tuple(make_case(entry) for entry in read_document(source)["cases"])
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{source} has a case of another form ({type(error).__name__}: {error})") from error


def read_document(source: Any) -> dict[str, Any]:
    """The content of a battery's file, a path or a resource; `DataError` if the file is missing, no battery or of another
    version.
    """
    try:
        document = json.loads(source.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read the battery {source}: {error}; expected a JSON file") from error
    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION or not isinstance(document.get("cases"), list):
        raise DataError(f"{source} is a battery of version {version}; expected {VERSION} and a list of cases")
    return dict(document)


def load_checked(path: Path | None = None) -> tuple[Case, ...]:
    """The cases that a check asks: the battery's and those of every event's fields, or those of another file; `DataError` as
    for `load`.
    """
    own = Path(str(importlib.resources.files("audit.accounting.regression") / "field_cases.json"))
    return load(path) if path is not None else (*load(), *load(own))


def make_case(entry: Mapping[str, Any]) -> Case:
    skip_validation = entry["kind"] == "refusal"
    asks = tuple(
        ClaimQuestion(
            event=decode(ask["event"], skip_validation=skip_validation),
            delta=number(ask["delta"]),
            adjacency=Adjacency(ask["adjacency"]),
        )
        for ask in entry["asks"]
    )
    remainder = {
        name: number(value) if name in ("lower", "upper") else value for name, value in entry.items() if name != "asks"
    }
    remainder["floors"] = tuple(number(floor) for floor in entry.get("floors", ()))
    return Case(**{**remainder, "asks": asks, "known": tuple(entry.get("known", ()))})


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAnswer:
    """What an accountant said when it was asked a case, before anyone judged it.

    Attributes:
        failure: "" if all were answered, "unsupported" if it said that it cannot, "raised" if it raised anything
            else, "late" if it gave no answer in time.
    """

    epsilons: tuple[float, ...] = ()
    failure: str = ""
    message: str = ""
    seconds: float = 0.0


def run(
    accountant: Accountant, cases: Iterable[Case], *, seconds: float = SECONDS, progress: Callable[[Result], None] | None = None
) -> tuple[Result, ...]:
    """Return what every case says about the accountant; a case that takes more than `seconds` of CPU is a CRASH.

    The limits on time and memory work on the main thread only (elsewhere there are none).
    """
    results = []
    for case in cases:
        results.append(judge(accountant, case, seconds=seconds))
        if progress is not None:
            progress(results[-1])
    return tuple(results)


def judge(accountant: Accountant, case: Case, *, seconds: float = SECONDS) -> Result:
    """Return what one case says about the accountant."""
    return settle(case, ask(accountant, case, seconds=seconds), find_side(accountant))


def ask(accountant: Accountant, case: Case, *, seconds: float = SECONDS) -> CaseAnswer:
    """The accountant's answer to one case, whatever it is."""
    start = time.process_time()
    epsilons: list[float] = []
    failure = message = ""
    try:
        with limits(seconds, more_bytes=_BYTES):
            for ask in case.asks:
                claim = accountant.claim(ask.event, delta=ask.delta, adjacency=ask.adjacency)
                epsilons.append(float(claim.epsilon))
    except UnsupportedMechanism as error:
        failure, message = "unsupported", str(error)
    except TooLongError as error:
        failure, message = "late", str(error)
    except Exception as error:  # noqa: BLE001 (whatever a foreign accountant raises is its finding; for nonsense it is right)
        failure, message = "raised", f"{type(error).__name__}: {error}"
    duration = time.process_time() - start
    return CaseAnswer(epsilons=tuple(epsilons), failure=failure, message=message, seconds=duration)


def settle(case: Case, answer: CaseAnswer, side: Side) -> Result:
    """Return what an answer says about whoever gave it and claims figures on that side of the truth."""
    if not answer.failure:
        return dataclasses.replace(verdict(case, answer.epsilons, side=side), seconds=answer.seconds, claims=answer.epsilons)
    finding = CaseFinding.UNSUPPORTED if answer.failure == "unsupported" else CaseFinding.CRASH
    if case.kind == "refusal" and answer.failure != "late":
        finding = CaseFinding.EXACT
    return Result(case=case, finding=finding, message=answer.message, seconds=answer.seconds)


def verdict(case: Case, epsilons: Sequence[float], *, side: Side = "upper") -> Result:
    """Return what stated epsilons say, without asking anyone.

    An estimate is judged like an upper bound, since people will use it as one. A lower bound is WRONG above the bracket
    instead of below. A relation that fails is only LOOSE if both claims are proven to be safe, or claim a lower bound.
    """
    epsilon = epsilons[0]
    if case.kind == "refusal":
        return _settle_refusal(case, epsilon, side)
    if any(math.isnan(epsilon) for epsilon in epsilons):
        return Result(
            case=case, finding=CaseFinding.WRONG, epsilon=math.nan, message="claims NaN; expected a number or an error"
        )
    if case.kind == "relation":
        return _relation(case, epsilons, side)
    return _below(case, epsilon) if side == "lower" else _settle_bracket(case, epsilon)


def _settle_refusal(case: Case, epsilon: float, side: Side) -> Result:
    if epsilon == (0.0 if side == "lower" else math.inf):
        return Result(case=case, finding=CaseFinding.EXACT, epsilon=epsilon, message=f"claims {epsilon:g}, which is safe")
    message = f"claims {epsilon:g} for arguments that mean nothing; expected an error"
    return Result(case=case, finding=CaseFinding.WRONG, epsilon=epsilon, message=message)


def _factor(case: Case, epsilon: float) -> float:
    if case.upper > 0 and math.isfinite(case.upper):
        return epsilon / case.upper
    return 1.0 if epsilon == case.upper else math.inf


def _settle_bracket(case: Case, epsilon: float) -> Result:
    """A claimed upper bound against its bracket."""
    factor, message = _factor(case, epsilon), ""
    if _is_below(epsilon, case.lower):
        finding, message = CaseFinding.WRONG, f"claims {epsilon:.9g}; the truth is at least {case.lower:.9g}"
    elif epsilon <= case.upper * (1 + case.tolerance) + 1e-12:
        finding = CaseFinding.EXACT
    else:
        finding = CaseFinding.LOOSE
        message = f"{factor:.3g} times the upper end" if math.isfinite(factor) else f"claims {epsilon:.4g}"
    return Result(case=case, finding=finding, epsilon=epsilon, factor=factor, message=message)


def _below(case: Case, epsilon: float) -> Result:
    """A claimed lower bound against its bracket."""
    factor, message = _factor(case, epsilon), ""
    finding = CaseFinding.EXACT if epsilon >= case.lower * (1 - case.tolerance) - 1e-12 else CaseFinding.LOOSE
    if epsilon > case.upper * (1 + _SLACK) + 1e-12:
        finding, message = CaseFinding.WRONG, f"claims at least {epsilon:.9g}; the truth is at most {case.upper:.9g}"
    elif finding is CaseFinding.LOOSE:
        message = f"claims at least {epsilon:.6g}, {factor:.3g} times the upper end"
    return Result(case=case, finding=finding, epsilon=epsilon, factor=factor, message=message)


def _is_below(epsilon: float, floor: float) -> bool:
    return epsilon < floor * (1 - _SLACK) - 1e-12


def _relation(case: Case, epsilons: Sequence[float], side: Side) -> Result:
    first, second = epsilons
    ratio = second / first if first > 0 and math.isfinite(first) else (1.0 if second == first else math.inf)
    low = first * case.lower * (1 - case.tolerance) - 1e-9 if case.lower > 0 else -1e-9
    high = first * case.upper * (1 + case.tolerance) + 1e-9 if math.isfinite(case.upper) else math.inf
    is_same = second == first
    if (is_same and not case.differ) or (is_same and first in (0, math.inf)) or (not is_same and low <= second <= high):
        return Result(case=case, finding=CaseFinding.EXACT, epsilon=ratio, factor=ratio)
    message = f"claims {first:.9g} and {second:.9g}; the second over the first should be in [{case.lower:g}, {case.upper:g}]"
    safe = len(case.floors) == len(epsilons) and not any(map(_is_below, epsilons, case.floors))
    finding = CaseFinding.LOOSE if side == "lower" or safe else CaseFinding.WRONG
    return Result(case=case, finding=finding, epsilon=ratio, factor=ratio, message=message)
