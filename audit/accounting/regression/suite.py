"""The accountant regression battery: cases as data, and the judge that runs an accountant over them.

A case asks for a claim and holds it against a proven bracket ("bracket"), holds two claims of the same accountant against
each other ("relation"), or gives arguments that must be refused ("refusal"). The data file also caches the brackets;
`refresh` computes them again.
"""

from __future__ import annotations

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

from audit.accounting.accountants.reference import Reference
from audit.accounting.regression.sandbox import TooLongError, limits
from audit.accounting.resolve import side_of
from audit.core.adjacency import Adjacency
from audit.core.errors import DataError, UnsupportedMechanism
from audit.core.event_forms import decode, number, plain
from audit.core.events import Event
from audit.core.protocols import Accountant, Side

VERSION = 1
_SLACK = 1e-9  # relative: a claim may lie this far under a proven end and still be called rounding
SECONDS = 60.0
_BYTES = 4 << 30


class Finding(StrEnum):
    """What a case says about an accountant."""

    WRONG = "WRONG"  # below what is provably true, or a number for nonsense: a privacy bug
    LOOSE = "LOOSE"  # safe, and above the bracket by more than the case's tolerance
    EXACT = "EXACT"  # inside the bracket, or the relation holds, or nonsense was refused
    UNSUPPORTED = "UNSUPPORTED"
    CRASH = "CRASH"  # raised, or gave no answer in time


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One claim that is asked for. `event` may hold values that its class would refuse, for cases of refusal."""

    event: Event
    delta: float
    adjacency: Adjacency


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of the battery.

    Attributes:
        id: short name, unique, stable over versions.
        group: which part of the battery.
        kind: "bracket", "relation" or "refusal".
        asks: one question, two for a relation.
        lower, upper: proven ends of the true epsilon (bracket); of claim 1 over claim 0 (relation).
        floors: proven lower ends of the claims of a relation: a relation that fails is WRONG where a claim lies below its own.
        tolerance: relative distance above the upper end that still counts as exact.
        reason: why the expected answer is the right one.
        catches: the mistake that this case is there for.
        precision: relative width the bracket is computed to.
        known: subject, version and claim of released libraries that are known to fail it.
    """

    id: str
    group: str
    kind: str
    asks: tuple[Question, ...]
    lower: float = 0.0
    upper: float = math.inf
    floors: tuple[float, ...] = ()
    tolerance: float = 0.01
    reason: str
    catches: str
    precision: float = 2e-4
    known: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one case: the finding, the claim (or ratio), its factor to the upper end, CPU seconds, in words why."""

    case: Case
    finding: Finding
    claimed: float = math.nan
    factor: float = math.nan
    seconds: float = 0.0
    message: str = ""


def load(path: Path | None = None) -> tuple[Case, ...]:
    """The cases of the data file that comes with the package, or of another one.

    Raises:
        DataError: the file is missing, malformed or of another version.
    """
    source = path or importlib.resources.files("audit.accounting.regression") / "cases.json"
    try:
        stored = json.loads(source.read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the battery {source}: {error}; expected a JSON file") from error
    if stored.get("version") != VERSION:
        raise DataError(f"{source} is a battery of version {stored.get('version')}; expected {VERSION}")
    return tuple(_case(one) for one in stored["cases"])


def _case(stored: Mapping[str, Any]) -> Case:
    unchecked = stored["kind"] == "refusal"
    asks = tuple(
        Question(
            event=decode(ask["event"], unchecked=unchecked), delta=number(ask["delta"]), adjacency=Adjacency(ask["adjacency"])
        )
        for ask in stored["asks"]
    )
    rest = {name: number(value) if name in ("lower", "upper") else value for name, value in stored.items() if name != "asks"}
    rest["floors"] = tuple(number(one) for one in stored.get("floors", ()))
    return Case(**{**rest, "asks": asks, "known": tuple(stored.get("known", ()))})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an accountant said when it was asked a case, before anybody judged it.

    Attributes:
        epsilons: one a question, as far as it got.
        failure: "" where all were answered, "unsupported" where it said that it cannot, "raised" where it raised anything
            else, "late" where it gave no answer in time.
        message: the error, in words.
        seconds: of CPU.
    """

    epsilons: tuple[float, ...] = ()
    failure: str = ""
    message: str = ""
    seconds: float = 0.0


def run(
    accountant: Accountant,
    cases: Iterable[Case],
    *,
    seconds: float = SECONDS,
    told: Callable[[Result], None] | None = None,
) -> tuple[Result, ...]:
    """What every case says about the accountant; a case that takes more than `seconds` of CPU is a CRASH.

    The limits on time and memory work on the main thread only (elsewhere there are none).
    """
    results = []
    for case in cases:
        results.append(judge(accountant, case, seconds=seconds))
        if told is not None:
            told(results[-1])
    return tuple(results)


def judge(accountant: Accountant, case: Case, *, seconds: float = SECONDS) -> Result:
    """What one case says about the accountant."""
    return settle(case, ask(accountant, case, seconds=seconds), side_of(accountant))


def ask(accountant: Accountant, case: Case, *, seconds: float = SECONDS) -> Answer:
    """The accountant's answer to one case, whatever it is."""
    started = time.process_time()
    epsilons: list[float] = []
    failure = message = ""
    try:
        with limits(seconds, more_bytes=_BYTES):
            for one in case.asks:
                claim = accountant.claim(one.event, delta=one.delta, adjacency=one.adjacency)
                epsilons.append(float(claim.epsilon))
    except UnsupportedMechanism as error:
        failure, message = "unsupported", str(error)
    except TooLongError as error:
        failure, message = "late", str(error)
    except Exception as error:  # noqa: BLE001 (whatever a foreign accountant raises is its finding; for nonsense it is right)
        failure, message = "raised", f"{type(error).__name__}: {error}"
    spent = time.process_time() - started
    return Answer(epsilons=tuple(epsilons), failure=failure, message=message, seconds=spent)


def settle(case: Case, answer: Answer, side: Side) -> Result:
    """What an answer says about whoever gave it, whose figures claim to lie on that side of the truth."""
    if not answer.failure:
        return dataclasses.replace(verdict(case, answer.epsilons, side=side), seconds=answer.seconds)
    finding = Finding.UNSUPPORTED if answer.failure == "unsupported" else Finding.CRASH
    if case.kind == "refusal" and answer.failure != "late":
        finding = Finding.EXACT
    return Result(case=case, finding=finding, message=answer.message, seconds=answer.seconds)


def verdict(case: Case, epsilons: Sequence[float], *, side: Side = "upper") -> Result:
    """What stated epsilons say, without asking anybody.

    An estimate is judged like an upper bound, since people will use it as one. A lower bound is WRONG above the bracket
    instead of below. A relation that fails is only LOOSE where both claims are proven to be safe, or claim a lower bound.
    """
    claimed = epsilons[0]
    if case.kind == "refusal":
        return _refused(case, claimed, side)
    if any(math.isnan(one) for one in epsilons):
        return Result(case=case, finding=Finding.WRONG, claimed=math.nan, message="claims NaN; expected a number or an error")
    if case.kind == "relation":
        return _relation(case, epsilons, side)
    return _below(case, claimed) if side == "lower" else _bracketed(case, claimed)


def _refused(case: Case, claimed: float, side: Side) -> Result:
    if claimed == (0.0 if side == "lower" else math.inf):
        return Result(case=case, finding=Finding.EXACT, claimed=claimed, message=f"claims {claimed:g}, which is safe")
    message = f"claims {claimed:g} for arguments that mean nothing; expected an error"
    return Result(case=case, finding=Finding.WRONG, claimed=claimed, message=message)


def _factor(case: Case, claimed: float) -> float:
    if case.upper > 0 and math.isfinite(case.upper):
        return claimed / case.upper
    return 1.0 if claimed == case.upper else math.inf


def _bracketed(case: Case, claimed: float) -> Result:
    """A claimed upper bound against its bracket."""
    factor, message = _factor(case, claimed), ""
    if _is_below(claimed, case.lower):
        finding, message = Finding.WRONG, f"claims {claimed:.9g}; the truth is at least {case.lower:.9g}"
    elif claimed <= case.upper * (1 + case.tolerance) + 1e-12:
        finding = Finding.EXACT
    else:
        finding = Finding.LOOSE
        message = f"{factor:.3g} times the upper end" if math.isfinite(factor) else f"claims {claimed:.4g}"
    return Result(case=case, finding=finding, claimed=claimed, factor=factor, message=message)


def _below(case: Case, claimed: float) -> Result:
    """A claimed lower bound against its bracket."""
    factor, message = _factor(case, claimed), ""
    finding = Finding.EXACT if claimed >= case.lower * (1 - case.tolerance) - 1e-12 else Finding.LOOSE
    if claimed > case.upper * (1 + _SLACK) + 1e-12:
        finding, message = Finding.WRONG, f"claims at least {claimed:.9g}; the truth is at most {case.upper:.9g}"
    elif finding is Finding.LOOSE:
        message = f"claims at least {claimed:.6g}, {factor:.3g} times the upper end"
    return Result(case=case, finding=finding, claimed=claimed, factor=factor, message=message)


def _is_below(claimed: float, floor: float) -> bool:
    return claimed < floor * (1 - _SLACK) - 1e-12


def _relation(case: Case, epsilons: Sequence[float], side: Side) -> Result:
    first, second = epsilons
    ratio = second / first if first > 0 and math.isfinite(first) else (1.0 if second == first else math.inf)
    low = first * case.lower * (1 - case.tolerance) - 1e-9 if case.lower > 0 else -1e-9
    high = first * case.upper * (1 + case.tolerance) + 1e-9 if math.isfinite(case.upper) else math.inf
    if second == first or low <= second <= high:
        return Result(case=case, finding=Finding.EXACT, claimed=ratio, factor=ratio)
    message = f"claims {first:.9g} and {second:.9g}; the second over the first should be in [{case.lower:g}, {case.upper:g}]"
    safe = len(case.floors) == len(epsilons) and not any(map(_is_below, epsilons, case.floors))
    finding = Finding.LOOSE if side == "lower" or safe else Finding.WRONG
    return Result(case=case, finding=finding, claimed=ratio, factor=ratio, message=message)


def refresh(path: Path, *, told: Callable[[str], None] | None = None) -> int:
    """Computes what is proven about every case of a battery file again and writes the file; the number of cases."""
    stored = json.loads(path.read_text())
    for one in stored["cases"]:
        if one["kind"] == "refusal":
            continue
        case = _case({**one, "lower": 0.0, "upper": "inf"})
        oracle = Reference(tolerance=case.precision)
        ends = [oracle.bracket(ask.event, delta=ask.delta, adjacency=ask.adjacency) for ask in case.asks]
        if one["kind"] == "relation":
            one["floors"] = [_outwards(low, -1) for low, _ in ends]
        else:
            one["lower"], one["upper"] = _outwards(ends[0][0], -1), _outwards(ends[0][1], 1)
        if told is not None:
            told(f"{one['id']}: {', '.join(f'[{low:.8g}, {high:.8g}]' for low, high in ends)}")
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(stored, indent=1) + "\n")
    temporary.replace(path)
    return len(stored["cases"])


def _outwards(value: float, side: int) -> Any:
    """Ten digits, rounded down (`side` -1) or up, as JSON."""
    if not math.isfinite(value):
        return plain(value)
    rounded = float(f"{value:.10g}")
    return rounded if (rounded - value) * side >= 0 else float(f"{value * (1 + side * 1e-9):.10g}")
