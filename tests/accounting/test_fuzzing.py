"""The search finds planted bugs of every kind, makes them small, and finds nothing in a right accountant."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.accounting.accountants.reference import Reference
from audit.accounting.regression import suite
from audit.accounting.regression.fuzzing import search as fuzzing
from audit.accounting.regression.fuzzing.draws import Draws
from audit.accounting.regression.fuzzing.shrinking import complexity
from audit.accounting.regression.fuzzing.strata import STRATA, QuestionPair
from audit.accounting.resolve import FunctionAccountant
from audit.cli.accountant_check import fuzz
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_reading import rebuilt
from audit.core.events import (
    ApproximateDp,
    Composed,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
    SampledWithoutReplacement,
)
from audit.stats.curves import renyi
from audit.stats.curves.pld import subsampled_gaussian_epsilon as exact
from audit.stats.curves.tradeoff import gdp_epsilon
from tests.marks import sample

ORDERS = (1.25, 1.5, 1.75, *range(2, 64), 128.0, 256.0)
Formula = Callable[[float, float, int, float], float]


def loose(noise: float, rate: float, steps: int, delta: float) -> float:
    """A right accountant far above the truth: moments."""
    if steps == 0 or rate == 0:
        return 0.0
    total = [steps * renyi.subsampled_gaussian(order, noise, rate) for order in ORDERS]
    return float(renyi.epsilon_improved(ORDERS, total, delta)[0])


@cache
def _stored(noise: float, rate: float, steps: int, delta: float) -> float:
    return exact(noise, rate, steps, delta)


_BY_KEY: dict[tuple[Any, ...], float] = {}


def by_key(key: Callable[[float, float, int, float], tuple[Any, ...]], formula: Formula) -> Formula:
    """Answers of a cache with a key that leaves something out."""

    def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
        return _BY_KEY.setdefault((key, *key(noise, rate, steps, delta)), formula(noise, rate, steps, delta))

    return epsilon


FUNCTIONS: dict[str, Formula] = {
    "odd step dropped": lambda n, q, t, d: exact(n, q, t - t % 2, d),
    "steps in tens": lambda n, q, t, d: exact(n, q, t - t % 10, d),
    "steps in hundreds, loose": lambda n, q, t, d: loose(n, q, t - t % 100, d),
    "odd step dropped, loose": lambda n, q, t, d: loose(n, q, t - t % 2, d),
    "one step too few": lambda n, q, t, d: exact(n, q, t - 1, d),
    "steps capped at a thousand": lambda n, q, t, d: exact(n, q, min(t, 1000), d),
    "whole epochs": lambda n, q, t, d: exact(n, q, math.floor(t * q) * round(1 / q), d) if q < 1 else exact(n, q, t, d),
    "count forgotten": lambda n, q, t, d: exact(n, q, 1, d),
    "rate of four digits": lambda n, q, t, d: exact(n, round(q, 4), t, d),
    "rate of four digits, loose": lambda n, q, t, d: loose(n, round(q, 4), t, d),
    "nothing below a rate of 1e-6": lambda n, q, t, d: 0.0 if q < 1e-6 else exact(n, q, t, d),
    "nothing below a rate of 1e-9": lambda n, q, t, d: 0.0 if q < 1e-9 else exact(n, q, t, d),
    "rate squared": lambda n, q, t, d: exact(n, q * q, t, d),
    "rate over its complement": lambda n, q, t, d: exact(n, q / (1 + q), t, d),
    "complement of the rate": lambda n, q, t, d: exact(n, 1 - q, t, d) if q < 1 else 0.0,
    "batch of a thousand records, floored": lambda n, q, t, d: exact(n, math.floor(q * 1000) / 1000, t, d),
    "delta doubled": lambda n, q, t, d: exact(n, q, t, min(2 * d, 0.9)),
    "delta of the next decade": lambda n, q, t, d: exact(n, q, t, 10.0 ** math.ceil(math.log10(d))),
    "delta never below 1e-8": lambda n, q, t, d: exact(n, q, t, max(d, 1e-8)),
    "delta a tenth more": lambda n, q, t, d: exact(n, q, t, min(1.1 * d, 0.9)),
    "noise of two digits": lambda n, q, t, d: exact(float(f"{n:.1e}"), q, t, d),
    "noise of two digits, loose": lambda n, q, t, d: loose(float(f"{n:.1e}"), q, t, d),
    "noise squared": lambda n, q, t, d: exact(n * n, q, t, d),
    "noise half a per cent more": lambda n, q, t, d: exact(1.005 * n, q, t, d),
    "noise over a half, for replacing": lambda n, q, t, d: exact(2 * n, q, t, d),
    "central limit from ten thousand steps": lambda n, q, t, d: (
        gdp_epsilon(q * math.sqrt(t * math.expm1(1 / n**2)), d) if t * q >= 1 and n > 1 else exact(n, q, t, d)
    ),
    "sampled in one direction": lambda n, q, t, d: exact(n, q, t, d, direction="add"),
    "lower end stated": lambda n, q, t, d: exact(n, q, t, d, side="lower", density=2.0),
    "cache without the steps": by_key(lambda n, q, t, d: (n, q, d), exact),
    "cache of rounded noise": by_key(lambda n, q, t, d: (round(n, 2), q, t, d), loose),
    "logarithm to base ten": lambda n, q, t, d: loose(n, q, t, d ** (1 / math.log(10))),
    "rounded to two digits": lambda n, q, t, d: round(exact(n, q, t, d), 2),
    "amplified twice": lambda n, q, t, d: math.log1p(q * math.expm1(min(exact(n, q, t, d), 500.0))),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Misreader:
    """Our reference, which reads some events wrongly."""

    misread: Callable[[Event], Event]
    adjacency: Adjacency | None = None

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        event = rebuilt(mechanism, self.misread)
        return Reference(tolerance=1e-3).claim(event, delta=delta, adjacency=self.adjacency or adjacency)


def _linear_group(node: Event) -> Event:
    match node:
        case Grouped(mechanism=ApproximateDp(epsilon=epsilon, delta=spent), size=size):
            return ApproximateDp(epsilon=size * epsilon, delta=min(size * spent, 1.0))
    return node


def _root_of_group(node: Event) -> Event:
    return rebuilt(node.mechanism, lambda leaf: _less_noise(leaf, math.sqrt(node.size))) if isinstance(node, Grouped) else node


def _less_noise(node: Event, factor: float) -> Event:
    return replace(node, noise_multiplier=node.noise_multiplier / factor) if isinstance(node, Gaussian | Laplace) else node


def _first_phase(node: Event) -> Event:
    return node.parts[0] if isinstance(node, Composed) and node.parts else node


def _idle_phase_ends_all(node: Event) -> Event:
    idle = isinstance(node, Composed) and any(isinstance(part, Repeated) and part.count == 0 for part in node.parts)
    return Composed(parts=()) if idle else node


def _no_delta(node: Event) -> Event:
    if not isinstance(node, Composed):
        return node
    spared = tuple(replace(part, delta=0.0) if isinstance(part, ApproximateDp) else part for part in node.parts)
    return Composed(parts=spared)


def _once(node: Event) -> Event:
    return node.mechanism if isinstance(node, Repeated) and isinstance(node.mechanism, RandomizedResponse) else node


def _poisson(node: Event) -> Event:
    if isinstance(node, SampledWithoutReplacement):
        return PoissonSampled(mechanism=node.mechanism, sample_rate=node.batch / node.population / 2)
    return node


def _first_answer(node: Event) -> Event:
    inner = node.mechanism if isinstance(node, PoissonSampled) else None
    return replace(node, mechanism=inner.mechanism) if isinstance(inner, Repeated) else node  # type: ignore[type-var]


def _half_exponential(node: Event) -> Event:
    return replace(node, epsilon=node.epsilon / 2) if isinstance(node, Exponential) else node


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutLinearTerm:
    """Advanced composition that leaves out `k epsilon (exp(epsilon) - 1)`."""

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        match mechanism:
            case Repeated(mechanism=ApproximateDp(epsilon=epsilon, delta=0.0), count=count):
                value = math.sqrt(2 * count * math.log(1 / delta)) * epsilon
                return Claim(epsilon=value, delta=delta, adjacency=adjacency, source="no linear term")
        raise UnsupportedMechanism("compositions of pure mechanisms only")


OBJECTS: dict[str, Any] = {
    "linear group delta": Misreader(misread=_linear_group),
    "group as its root": Misreader(misread=_root_of_group),
    "first phase only": Misreader(misread=_first_phase),
    "idle phase ends the account": Misreader(misread=_idle_phase_ends_all),
    "delta of a part dropped": Misreader(misread=_no_delta),
    "count of responses ignored": Misreader(misread=_once),
    "fixed batches as Poisson": Misreader(misread=_poisson),
    "one of several answers on a batch": Misreader(misread=_first_answer),
    "half of an exponential mechanism": Misreader(misread=_half_exponential),
    "replace-one as add/remove": Misreader(misread=lambda node: node, adjacency=Adjacency.ADD_REMOVE),
    "missing linear term": WithoutLinearTerm(),
}
BUGS = {**{name: FunctionAccountant(function=formula, name=name) for name, formula in FUNCTIONS.items()}, **OBJECTS}
QUICK = ("odd step dropped", "nothing below a rate of 1e-6")


def test_there_are_forty() -> None:
    assert len(BUGS) >= 40


def _finds(name: str) -> fuzzing.FuzzFinding:
    result = fuzzing.search(BUGS[name], seconds=120, seed=1, most=1)
    assert result.findings, f"{name}: nothing in {result.questions}, crashes {result.crashes}"
    return result.findings[0]


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_found(name: str) -> None:
    finding = _finds(name)
    assert finding.is_unsafe and ("truth" in finding.sentence)


# one bug of five is in the slow suite; all of them are minutes each on a busy machine
OTHERS = [name for name in BUGS if name not in QUICK]
SHARES = sample(((name,) for name in OTHERS), 5)


@pytest.mark.parametrize("name", SHARES)
def test_each_planted_bug_is_found_in_two_minutes(name: str) -> None:
    finding = _finds(name)
    assert finding.is_unsafe or "loose" in name or "cache" in name


RIGHT = [
    *(pytest.param(name, 4, marks=pytest.mark.slow) for name in ("rdp", "exact", "loose")),
    *(pytest.param(name, 30, marks=pytest.mark.calibration) for name in ("rdp", "exact", "loose", "reference", "renyi")),
]


@pytest.mark.parametrize(("name", "seconds"), RIGHT)
def test_nothing_is_found_in_right_accountants(name: str, seconds: float) -> None:
    from audit.accounting import resolve

    functions = {"exact": FunctionAccountant(function=exact), "loose": FunctionAccountant(function=loose)}
    result = fuzzing.search(functions[name] if name in functions else resolve.subject(name), seconds=seconds, seed=2)
    assert not result.findings, [finding.sentence for finding in result.findings]
    assert not result.crashes


def test_findings_are_small_and_can_be_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = _finds("nothing below a rate of 1e-6")
    (ask, *_) = finding.case.asks
    assert complexity(ask)[0] <= 3 and complexity(ask)[1] <= 8, finding.sentence
    file = tmp_path / "found.json"
    assert fuzzing.append(file, [finding]) == 1 == fuzzing.append(file, [finding])
    (case,) = suite.load(file)
    assert suite.judge(BUGS["nothing below a rate of 1e-6"], case).finding is suite.CaseFinding.WRONG
    assert finding.sentence in case.catches
    assert suite.judge(FunctionAccountant(function=exact), case).finding is not suite.CaseFinding.WRONG


def test_every_stratum_draws_questions_with_an_answer() -> None:
    for name, stratum in STRATA.items():
        draws = Draws(np.random.Generator(np.random.PCG64(3)))
        for drawn in (stratum(draws) for _ in range(40)):
            asks = (drawn.first, drawn.second) if isinstance(drawn, QuestionPair) else (drawn,)
            assert all(0 < ask.delta < 1 for ask in asks), name
            assert not isinstance(drawn, QuestionPair) or drawn.first != drawn.second, name


def test_the_same_seed_asks_the_same() -> None:
    first, second = (Draws(np.random.Generator(np.random.PCG64(5))) for _ in range(2))
    assert [STRATA["mixtures"](first) for _ in range(9)] == [STRATA["mixtures"](second) for _ in range(9)]


def test_a_search_without_time_is_refused() -> None:
    with pytest.raises(ConfigError, match="some time"):
        fuzzing.search(BUGS["odd step dropped"], seconds=0)


def _nothing(n: float, q: float, t: int, d: float) -> float:
    raise RuntimeError("broken import")


@pytest.mark.slow
def test_the_command_answers_with_exit_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys
    import types

    module = types.ModuleType("fuzzed_accountants")
    module.capped = FUNCTIONS["count forgotten"]  # type: ignore[attr-defined]
    module.nothing = _nothing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fuzzed_accountants", module)
    file = tmp_path / "found.json"
    assert fuzz("fuzzed_accountants:capped", minutes=0.5, cases=file, most=1) == 1
    assert "wrong side of the truth" in capsys.readouterr().out and suite.load(file)
    assert fuzz("fuzzed_accountants:nothing", minutes=0.5, as_json=True) == 6
    assert "broken import" in json.dumps(json.loads(capsys.readouterr().out)["crashes"])
