"""The accountant regression battery: cases as data, and the judge that runs an accountant over them.

A case asks for a claim and holds it against a proven bracket ("bracket"), holds two claims of the same accountant against
each other ("relation"), or gives arguments that must be refused ("refusal"). The data file also caches the brackets;
`refresh` computes them again.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.resources
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from audit import plugins
from audit.accountants.reference import Reference
from audit.core.errors import ConfigError, DataError, UnsupportedMechanism
from audit.core.events import decode, number, plain, single_phase
from audit.core.mechanism import Adjacency, Event
from audit.core.protocols import Accountant
from audit.core.results import Claim

VERSION = 1
_SLACK = 1e-9  # relative: a claim may lie this far under a proven end and still be called rounding
_SECONDS = 60.0


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
    source = path or importlib.resources.files("audit") / "_battery" / "cases.json"
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
    return Case(**{**rest, "asks": asks, "known": tuple(stored.get("known", ()))})


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAccountant:
    """A plain function `(noise_multiplier, sample_rate, steps, delta) -> epsilon` as an accountant (add/remove)."""

    function: Callable[[float, float, int, float], float]
    name: str = "function"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The function's epsilon for DP-SGD and for repeated Gaussian releases; `UnsupportedMechanism` otherwise."""
        if adjacency is Adjacency.REPLACE_ONE:
            raise UnsupportedMechanism(f"{self.name} is a function of four numbers: add/remove only")
        noise, rate, steps = single_phase(mechanism)
        return Claim(epsilon=self.function(noise, rate, steps, delta), delta=delta, adjacency=adjacency, source=self.name)


def subject(spec: str | Mapping[str, Any]) -> Accountant:
    """The accountant that a name, `name,field=value`, `module:object` or `{"kind": ..., fields}` stands for.

    The object may be a class or instance with a method `claim`, or a plain function of (noise_multiplier, sample_rate,
    steps, delta).

    Raises:
        ConfigError: there is no such accountant.
    """
    options = _options(spec) if isinstance(spec, str) else dict(spec)
    kind = str(options["kind"])
    if ":" not in kind:
        built: Accountant = plugins.build("audit.accountants", options)
        return built
    module, _, attribute = kind.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"cannot load '{kind}': {error}; expected 'package.module:object' on the import path") from error
    if isinstance(found, type):
        found = found()
    if hasattr(found, "claim"):
        accountant: Accountant = found
        return accountant
    if callable(found):
        return FunctionAccountant(function=found, name=kind)
    raise ConfigError(f"'{kind}' is a {type(found).__name__}; expected an object with a method 'claim', or a function")


def _options(spec: str) -> dict[str, Any]:
    kind, *fields = spec.split(",")
    options: dict[str, Any] = {"kind": kind}
    for field in fields:
        name, equals, value = field.partition("=")
        if not equals:
            raise ConfigError(f"cannot read '{field}' in '{spec}'; expected name,field=value")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def run(
    accountant: Accountant,
    cases: Iterable[Case],
    *,
    seconds: float = _SECONDS,
    told: Callable[[Result], None] | None = None,
) -> tuple[Result, ...]:
    """What every case says about the accountant; a case that takes more than `seconds` of CPU is a CRASH.

    The time limit works on the main thread only (elsewhere there is none).
    """
    results = []
    for case in cases:
        results.append(judge(accountant, case, seconds=seconds))
        if told is not None:
            told(results[-1])
    return tuple(results)


def judge(accountant: Accountant, case: Case, *, seconds: float = _SECONDS) -> Result:
    """What one case says about the accountant."""
    started = time.process_time()
    epsilons: list[float] = []
    try:
        with _time_limit(seconds):
            for ask in case.asks:
                claim = accountant.claim(ask.event, delta=ask.delta, adjacency=ask.adjacency)  # type: ignore[arg-type]
                epsilons.append(float(claim.epsilon))
    except UnsupportedMechanism as error:
        finding, message = (Finding.EXACT if case.kind == "refusal" else Finding.UNSUPPORTED), str(error)
    except _TooLongError as error:
        finding, message = Finding.CRASH, str(error)
    except Exception as error:  # noqa: BLE001 (whatever a foreign accountant raises is its finding; for nonsense it is right)
        finding, message = (Finding.EXACT if case.kind == "refusal" else Finding.CRASH), f"{type(error).__name__}: {error}"
    else:
        found = verdict(case, epsilons, lower_claims=bool(getattr(accountant, "optimistic", False)))
        return dataclasses.replace(found, seconds=time.process_time() - started)
    return Result(case=case, finding=finding, message=message, seconds=time.process_time() - started)


def verdict(case: Case, epsilons: Sequence[float], *, lower_claims: bool = False) -> Result:
    """What claimed epsilons say, without asking anybody. `lower_claims`: they are meant as lower bounds on epsilon."""
    claimed = epsilons[0]
    if case.kind == "refusal":
        if claimed == math.inf:
            return Result(case=case, finding=Finding.EXACT, claimed=claimed, message="claims infinity, which is safe")
        message = f"claims {claimed:g} for arguments that mean nothing; expected an error"
        return Result(case=case, finding=Finding.WRONG, claimed=claimed, message=message)
    if any(math.isnan(one) for one in epsilons):
        return Result(case=case, finding=Finding.WRONG, claimed=math.nan, message="claims NaN; expected a number or an error")
    if case.kind == "relation":
        return _relation(case, epsilons)
    return _bracketed(case, claimed, lower_claims)


def _bracketed(case: Case, claimed: float, lower_claims: bool) -> Result:
    """A claim against its bracket; a claim of a lower bound is wrong above the bracket instead of below."""
    finite = case.upper > 0 and math.isfinite(case.upper)
    factor = claimed / case.upper if finite else (1.0 if claimed == case.upper else math.inf)
    below = claimed < case.lower * (1 - _SLACK) - 1e-12
    above = claimed > case.upper * (1 + _SLACK) + 1e-12
    message = ""
    if lower_claims:
        finding = Finding.EXACT if claimed >= case.lower * (1 - case.tolerance) else Finding.LOOSE
        if above:
            finding, message = Finding.WRONG, f"claims at least {claimed:.9g}; the truth is at most {case.upper:.9g}"
    elif below:
        finding, message = Finding.WRONG, f"claims {claimed:.9g}; the truth is at least {case.lower:.9g}"
    elif claimed <= case.upper * (1 + case.tolerance) + 1e-12:
        finding = Finding.EXACT
    else:
        finding = Finding.LOOSE
        message = f"{factor:.3g} times the upper end" if math.isfinite(factor) else f"claims {claimed:.4g}"
    return Result(case=case, finding=finding, claimed=claimed, factor=factor, message=message)


def _relation(case: Case, epsilons: Sequence[float]) -> Result:
    first, second = epsilons
    ratio = second / first if first > 0 and math.isfinite(first) else (1.0 if second == first else math.inf)
    low = first * case.lower * (1 - case.tolerance) - 1e-9 if case.lower > 0 else -1e-9
    high = first * case.upper * (1 + case.tolerance) + 1e-9 if math.isfinite(case.upper) else math.inf
    if second == first or low <= second <= high:
        return Result(case=case, finding=Finding.EXACT, claimed=ratio, factor=ratio)
    message = f"claims {first:.9g} and {second:.9g}; the second over the first should be in [{case.lower:g}, {case.upper:g}]"
    return Result(case=case, finding=Finding.WRONG, claimed=ratio, factor=ratio, message=message)


def refresh(path: Path, *, told: Callable[[str], None] | None = None) -> int:
    """Computes the bracket of every bracket case in a battery file again and writes the file; the number of cases."""
    stored = json.loads(path.read_text())
    for one in stored["cases"]:
        if one["kind"] != "bracket":
            continue
        case = _case({**one, "lower": 0.0, "upper": "inf"})
        oracle = Reference(tolerance=case.precision)
        low, high = oracle.bracket(case.asks[0].event, delta=case.asks[0].delta, adjacency=case.asks[0].adjacency)
        one["lower"], one["upper"] = plain(low), plain(high)
        # ten digits, rounded outwards
        if math.isfinite(low):
            one["lower"] = plain(_outwards(low, -1))
        if math.isfinite(high):
            one["upper"] = plain(_outwards(high, 1))
        if told is not None:
            told(f"{one['id']}: [{low:.8g}, {high:.8g}]")
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(stored, indent=1) + "\n")
    temporary.replace(path)
    return len(stored["cases"])


def _outwards(value: float, side: int) -> float:
    rounded = float(f"{value:.10g}")
    return rounded if (rounded - value) * side >= 0 else float(f"{value * (1 + side * 1e-9):.10g}")


class _TooLongError(Exception):
    """A case did not end within its time."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        raise _TooLongError(f"no answer in {seconds:g} s of CPU")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
