"""An accountant is held to its method on both sides; a right one passes, whatever its style; a changed figure is found."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accountant_answers import collect
from scipy.optimize import minimize_scalar

from audit.accounting import published
from audit.accounting.accountants.pld import Pld
from audit.accounting.regression import explain, files, methods, recognition, suite
from audit.accounting.regression.methods import GRIDS, Method
from audit.accounting.regression.suite import CaseFinding, Result
from audit.accounting.resolve import FunctionAccountant
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, DataError, UnsupportedMechanism
from audit.core.events import Event, dp_sgd
from audit.stats.curves import renyi
from audit.stats.curves.tradeoff import gdp_epsilon
from tests.marks import sample

Formula = Callable[[float, float, int, float], float]
ADD = Adjacency.ADD_REMOVE
OWN = (*(1.25 + step / 4 for step in range(30)), *map(float, range(9, 200, 3)))


@cache
def _curve(orders: tuple[float, ...], noise: float, rate: float) -> Any:
    return renyi.sampled_curve(orders, noise, rate)


def accountant(orders: tuple[float, ...], conversion: str = "improved") -> Formula:
    convert = renyi.epsilon_improved if conversion == "improved" else renyi.epsilon_classic

    def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
        if steps <= 0 or rate == 0:
            return 0.0
        if noise == 0:
            return math.inf
        return convert(orders, (steps * _curve(orders, float(noise), float(rate))).tolist(), delta)[0]

    return epsilon


def sampled_only(formula: Formula) -> Formula:
    def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
        if rate == 1:
            raise UnsupportedMechanism("samples batches")
        return formula(noise, rate, steps, delta)

    return epsilon


def concentrated(noise: float, rate: float, steps: int, delta: float) -> float:
    """By two lemmas of Bun and Steinke 2016, the better one."""
    if rate != 1:
        raise UnsupportedMechanism("does not sample")
    rho = steps / (2 * noise**2)
    excess = math.log(math.pi * rho) / 2 - math.log(delta)
    return rho + 2 * math.sqrt(rho * min(-math.log(delta), max(excess, 0) or math.inf))


def optimal(noise: float, rate: float, steps: int, delta: float) -> float:
    """By the optimal conversion of each divergence (Asoodeh et al. 2020): the worst of two outcomes that have it."""
    usual = RIGHT["Opacus"](noise, rate, steps, delta)
    if not 0 < usual < 50:
        return usual
    orders = np.array(GRIDS["opacus"])[::3, None]
    limits = (orders - 1) * steps * _curve(GRIDS["opacus"], float(noise), float(rate))[::3, None]
    first = delta + np.geomspace(delta / 1000, (1 - delta) * (1 - 1e-9), 250)
    low, high = np.full((len(orders), len(first)), -usual - 60.0), np.log(first) + 0 * orders
    for _ in range(30):
        middle = (low + high) / 2
        complement = (1 - orders) * np.log1p(-np.exp(middle)) + orders * np.log1p(-first)
        is_allowed = np.logaddexp(orders * np.log(first) + (1 - orders) * middle, complement) <= limits
        low, high = np.where(is_allowed, low, middle), np.where(is_allowed, middle, high)
    return min(usual, float((np.log(first - delta) - low).max(axis=1).min()) * 1.001 + 1e-6)


RIGHT = {
    "Opacus": accountant(GRIDS["opacus"]),
    "Opacus, classic": accountant(GRIDS["opacus"], "classic"),
    "dp-accounting": accountant(GRIDS["dp-accounting"]),
    "moments": accountant(GRIDS["2..33"], "classic"),
    "own orders": accountant(OWN),
    "a step too many": lambda n, q, t, d: RIGHT["Opacus"](n, q, t + 1, d),
    "five per cent more": lambda n, q, t, d: 1.05 * RIGHT["Opacus"](n, q, t, d),
    "rounded up": lambda n, q, t, d: math.ceil(1e4 * RIGHT["Opacus"](n, q, t, d)) / 1e4,
    "sampled only": sampled_only(accountant(GRIDS["opacus"])),
    "sampled only, own orders": sampled_only(accountant(OWN)),
    "exact without sampling": lambda n, q, t, d: (
        gdp_epsilon(math.sqrt(t) / n, d) if q == 1 and n and t else RIGHT["Opacus"](n, q, t, d)
    ),
    "many orders of its own": accountant(tuple(1.05 + 0.2 * step for step in range(60))),
    "zCDP by two lemmas": concentrated,
    "the optimal conversion": optimal,
}
MISTAKES: dict[str, Callable[[Formula], Formula]] = {
    "noise + 1 %": lambda f: lambda n, q, t, d: f(1.01 * n, q, t, d),
    "noise + 0.2 %": lambda f: lambda n, q, t, d: f(1.002 * n, q, t, d),
    "steps - 5 %": lambda f: lambda n, q, t, d: f(n, q, 0.95 * t, d),  # type: ignore[arg-type]
    "rate - 3 %": lambda f: lambda n, q, t, d: f(n, q * 0.97 if q < 1 else q, t, d),
    "one step short beyond 500": lambda f: lambda n, q, t, d: f(n, q, t - (t > 500), d),
    "delta + 10 %": lambda f: lambda n, q, t, d: f(n, q, t, min(1.1 * d, 0.9)),
    "epsilon - 0.5 %": lambda f: lambda n, q, t, d: 0.995 * f(n, q, t, d),
    "small rates - 2 %": lambda f: lambda n, q, t, d: f(n, q * 0.98 if q < 0.005 else q, t, d),
    "noise + 1 % at small rates": lambda f: lambda n, q, t, d: f(n * (1.01 if q < 0.01 else 1), q, t, d),
    "noise + 1 % below 0.7": lambda f: lambda n, q, t, d: f(n * (1.01 if n < 0.7 else 1), q, t, d),
    "rate in half precision": lambda f: lambda n, q, t, d: f(n, float(np.float16(q)) if q > 1e-4 else q, t, d),
    "large noise + 2 %": lambda f: lambda n, q, t, d: f(n * (1.02 if n > 5 else 1), q, t, d),
    "2 % less over the root of the steps": lambda f: lambda n, q, t, d: f(n, q, t, d) * (1 - 0.02 / math.sqrt(max(t, 1))),
    "2 % less at little noise": lambda f: lambda n, q, t, d: f(n, q, t, d) * (1 - 0.02 * math.exp(-n)),
}
STYLES = ("Opacus", "moments", "own orders", "dp-accounting", "sampled only", "sampled only, own orders")
PAIRS = [(style, mistake) for style in STYLES for mistake in MISTAKES]


def training(noise: float, rate: float, steps: int) -> Event:
    return dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=steps)


@cache
def _cases() -> tuple[suite.Case, ...]:
    return tuple(case for case in suite.load() if case.kind == "bracket")


def answers(formula: Formula, share: int = 1) -> tuple[Result, ...]:
    return suite.run(FunctionAccountant(function=formula), _cases()[::share])


@pytest.mark.slow
def test_a_right_accountant_is_recognised_and_held_to_nothing_that_it_is_not() -> None:
    report = recognition.compare(answers(RIGHT["moments"]), None)
    assert str(report.method) == "MOMENTS (orders 2..33, classic conversion)" and not report.results and report.compared > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_no_right_accountant_is_accused(name: str) -> None:
    assert [result.message for result in recognition.compare(answers(RIGHT[name]), None).results] == []


KEPT = Path(__file__).parents[2] / "docs" / "evidence" / "accountants"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [("opacus_rdp", "opacus_prv"), ("rdp_classic", "prv_accountant"), ("rdp", "pld"), ("dp_accelerator", "dp_accounting_pld")],
)
def test_the_better_of_two_released_accountants_is_not_accused(first: str, second: str) -> None:
    recorded = [collect(spec, spec, KEPT, seconds=10, ask=False).results for spec in (first, second)]
    second_epsilons = {row.case.id: row.epsilon for row in recorded[1] if row.epsilon > 0}
    better = [
        suite.verdict(row.case, (min(row.epsilon, second_epsilons.get(row.case.id, math.inf)),))
        for row in recorded[0]
        if row.case.kind == "bracket" and 0 < row.epsilon < math.inf
    ]
    assert len(better) > 200 and [row.message for row in recognition.compare(better, None).results] == []


BESIDE: dict[str, Callable[[Result], float]] = {
    "PLD": lambda result: result.case.upper,
    "PLD and 1 %": lambda result: 1.01 * result.case.upper,
    "PRV and 0.01": lambda result: result.case.upper + 0.01,
    "the better of RDP and PLD": lambda result: min(result.epsilon, 1.0005 * result.case.upper),
    "the better of RDP and PLD and 5 %": lambda result: min(result.epsilon, 1.05 * result.case.upper),
    "the better of RDP and PRV and 0.1": lambda result: min(result.epsilon, 0.1 + result.case.upper),
}
"""Right figures by another method, from the proven bracket and the answer of a Renyi accountant."""


@pytest.mark.slow
def test_no_accountant_that_is_better_than_renyi_is_accused() -> None:
    renyi_answers = [result for result in answers(RIGHT["Opacus"]) if 0 < result.epsilon < math.inf]
    assert len(renyi_answers) > 200
    for name, figure in BESIDE.items():
        report = recognition.compare([suite.verdict(row.case, (figure(row),)) for row in renyi_answers], None)
        assert [result.message for result in report.results] == [], name


@pytest.mark.parametrize(("style", "mistake"), sample(PAIRS, 12))
def test_small_mistakes_are_found_without_a_word_about_the_method(style: str, mistake: str) -> None:
    rows = answers(MISTAKES[mistake](RIGHT[style]))
    unnamed = recognition.compare(rows, None).results
    assert len(unnamed) >= 2 and all(result.finding is CaseFinding.WRONG for result in unnamed)
    named = recognition.compare(rows, methods.parse("rdp")).results
    assert {result.case.id for result in unnamed} <= {result.case.id for result in named}, "a name never weakens the check"


def test_the_least_epsilon_of_every_order_is_that_of_a_search() -> None:
    for case in [case for case in _cases() if case.id in ("unround-noise-0.8004", "grid-q0.01-s1-t1000-d1e-05")]:
        ask = case.asks[0]
        for conversion, convert in methods.CONVERSIONS.items():
            least = methods.least_epsilon(ask, conversion)

            def epsilon(order: float, ask: Any = ask, convert: Any = convert) -> float:
                return float(convert((order,), methods.total_curve(ask, (order,)).tolist(), ask.delta)[0])

            minimum = minimize_scalar(epsilon, bounds=(1.5, 60.0), method="bounded", options={"xatol": 1e-7})
            assert least == pytest.approx(minimum.fun, rel=5e-8)


def test_a_named_method_is_held_to_on_both_sides() -> None:
    few = answers(lambda n, q, t, d: RIGHT["moments"](n * 0.999, q, t, d), 8)
    above = recognition.compare(few, methods.parse("moments")).results
    assert above and all("%" in result.message and result.factor > 1 for result in above)
    assert not recognition.compare(answers(RIGHT["moments"], 8), methods.parse("rdp,orders=2..33,conversion=classic")).results


def test_methods_are_read_from_texts_and_from_the_accountant() -> None:
    assert methods.parse("rdp,orders=2..64").orders == GRIDS["2..64"]
    assert methods.parse("rdp,orders=1.5 2 8").orders == (1.5, 2.0, 8.0)

    def mine(n: float, q: float, t: int, d: float) -> float:
        return 0.0

    mine.method, mine.orders = "rdp", [2, 3]  # type: ignore[attr-defined]
    assert methods.stated(FunctionAccountant(function=mine)) == Method(name="rdp", orders=(2.0, 3.0))
    for text in ("rpd", "rdp,order=2", "rdp,orders=many", "rdp,orders=0.5 2"):
        with pytest.raises(ConfigError):
            methods.parse(text)


def test_a_grid_or_a_tolerance_says_how_far_a_numerical_figure_may_lie_above_the_truth() -> None:
    (case,) = (case for case in _cases() if case.id == "grid-q0.01-s1-t1000-d1e-05")
    truth, ask = (case.lower, case.upper), case.asks[0]
    ends = {text: methods.expected(methods.parse(text), ask, truth) for text in ("prv", "pld,tolerance=1e-5")}
    above = {text: pair[1] - case.upper for text, pair in ends.items() if pair is not None and pair[0] == case.lower}
    assert above == pytest.approx({"prv": 0.02 + 1e-3 * case.upper, "pld,tolerance=1e-5": 1e-5 * case.upper}, rel=1e-3)
    for wrong in ("pld,grid=-1", "prv,delta_error=1"):
        with pytest.raises(ConfigError, match="grid"):
            methods.parse(wrong)


def test_a_named_epsilon_error_is_held_to_on_both_sides() -> None:
    recorded = collect("opacus_prv", "PRV", KEPT, seconds=10, ask=False).results
    (row,) = (row for row in recorded if row.case.id == "grid-q0.01-s1-t1000-d1e-05")
    for change in (0.0, -3e-6, 3e-6):
        moved = suite.verdict(row.case, (row.epsilon * (1 + change),))
        assert len(recognition.compare([moved], methods.parse("prv,grid=0.01")).results) == (change != 0)
    assert recognition.compare([row], methods.parse("prv,grid=0.01,delta_error=0.1")).results
    assert not recognition.compare(
        [suite.verdict(row.case, (1.001 * row.epsilon,))], methods.parse("prv,grid=0.01,tolerance=2e-3")
    ).results


@pytest.mark.slow
def test_real_accountants_by_loss_variables_are_what_their_errors_give_but_for_known_defects() -> None:
    known = {"edge-M", "edge-prv-lower-2", "grid-q0.2-s5-t10000-d1e-08", "composition-e0.7-d0-t353"}  # prv-accountant's defects
    known |= {"edge-E", "zeroout-q0.01-s1-t1000-d1e-12"}  # Opacus' rounding at deltas of 1e-12, and below them
    known |= {
        "published-quickstart",
        *(f"grid-q0.01-s0.6-{ending}" for ending in ("t100-d1e-05", "t1000-d1e-05", "t1000-d1e-08")),
    }
    known |= {"delta-d1e-13", "delta-wide-d1e-13", "delta-prv-2", "delta-prv-3", "delta-prv-4"}
    for spec in ("opacus_prv", "prv_accountant"):
        recorded = collect(spec, spec, KEPT, seconds=10, ask=False).results
        rows = [row for row in recorded if row.case.kind == "bracket" and 0 < row.epsilon < math.inf][::7]
        report = recognition.compare(rows, methods.parse("prv,grid=0.01"))
        assert report.compared > 30 and {row.case.id.removeprefix("method-") for row in report.results} <= known


@pytest.mark.slow
def test_small_mistakes_of_an_accountant_by_loss_variables_are_found() -> None:
    accountants = pytest.importorskip("opacus.accountants")
    cases = [case for case in _cases() if case.id in ("grid-q0.01-s1-t1000-d1e-05", "grid-q0.05-s2-t1000-d1e-05")]

    def right(n: float, q: float, t: int, d: float) -> float:
        inner = accountants.PRVAccountant()
        inner.history = [(n, q, t)]
        return float(inner.get_epsilon(d))

    mistakes: dict[str, Formula] = {
        "right": right,
        "noise + 1 %": lambda n, q, t, d: right(1.01 * n, q, t, d),
        "noise - 1 %": lambda n, q, t, d: right(0.99 * n, q, t, d),
        "steps - 5 %": lambda n, q, t, d: right(n, q, round(0.95 * t), d),
        "epsilon - 1e-5": lambda n, q, t, d: (1 - 1e-5) * right(n, q, t, d),
        "epsilon + 1e-5": lambda n, q, t, d: (1 + 1e-5) * right(n, q, t, d),
    }
    for name, formula in mistakes.items():
        result = recognition.compare(suite.run(FunctionAccountant(function=formula), cases), methods.parse("prv,grid=0.01"))
        assert result.compared == 2 and len(result.results) == (0 if name == "right" else 2), name


def test_a_real_accountant_by_loss_distributions_is_nowhere_above_what_its_grid_gives() -> None:
    recorded = collect("dp_accounting_pld", "PLD", KEPT, seconds=10, ask=False).results
    rows = [row for row in recorded if row.case.kind == "bracket" and 0 < row.epsilon < math.inf]
    off = recognition.compare(rows, methods.parse("pld")).results
    assert len(rows) > 300 and sum(row.epsilon > 1.001 * row.case.upper for row in rows) > 20
    assert off and all(row.epsilon < row.case.lower for row in off)  # its defects: below the truth


ON_A_GRID = ("grid-q0.001-s5-t100-d1e-08", "noise-100", "rate-1e-8")  # at 1e-4 they lie 2 % to 118 times above the truth


def test_a_named_grid_is_held_to_on_both_sides() -> None:
    cases = [case for case in _cases() if case.id in ON_A_GRID]
    pld = Pld(interval=1e-4)
    mistakes: dict[str, Formula] = {
        "right": lambda n, q, t, d: pld.claim(training(n, q, t), delta=d, adjacency=ADD).epsilon,
        "noise + 1 %": lambda n, q, t, d: mistakes["right"](1.01 * n, q, t, d),
        "noise - 1 %": lambda n, q, t, d: mistakes["right"](0.99 * n, q, t, d),
        "steps - 5 %": lambda n, q, t, d: mistakes["right"](n, q, round(0.95 * t), d),
        "epsilon - 0.1 %": lambda n, q, t, d: 0.999 * mistakes["right"](n, q, t, d),
    }
    for name, formula in mistakes.items():
        result = recognition.compare(suite.run(FunctionAccountant(function=formula), cases), methods.parse("pld,grid=1e-4"))
        assert result.compared == 3 and len(result.results) == (0 if name == "right" else 3), name


@pytest.mark.slow
def test_divergences_are_those_of_the_second_way() -> None:
    stored = json.loads((Path(__file__).parent / "truths" / "orders.json").read_text())["rows"]
    assert len(stored) > 200
    formulas: dict[str, Callable[..., float]] = {
        "gaussian": lambda noise, rate, order: renyi.subsampled_gaussian(order, noise, rate),
        "laplace": lambda scale, rate, order: max(
            renyi.subsampled_laplace(order, scale, rate, direction=side)
            for side in ("remove", "add")  # type: ignore[arg-type]
        ),
        "response": lambda parameter, buckets, order: renyi.randomised_response(order, parameter, buckets),
    }
    for kind, first, second, order, divergence in stored:
        if kind in formulas:
            tiny = 1e-16 * order if kind == "laplace" else 0.0  # a sum whose terms add up to 1
            assert formulas[kind](first, second, order) == pytest.approx(divergence, rel=1e-9, abs=tiny), (
                kind,
                first,
                second,
                order,
            )


def test_any_change_of_a_figure_is_found(tmp_path: Path) -> None:
    before, file = answers(RIGHT["moments"], 8), tmp_path / "answers.json"
    file.write_bytes(files.make_record({"mine": before}))
    assert files.compare(file, "mine", before, 1e-9) == ()
    after = answers(lambda n, q, t, d: RIGHT["moments"](n, q, t, d) * (1 + 1e-7), 8)
    changed = files.compare(file, "mine", after, 1e-9)
    assert len(changed) > 20 and all("was recorded (+1e-05 %)" in explain.lines(row, "mine")[0] for row in changed)
    assert files.compare(file, "mine", after, 1e-6) == ()
    with pytest.raises(DataError, match="--record"):
        files.compare(file, "other", before, 1e-9)


def test_a_failure_tells_what_was_asked_and_how_to_see_it_again() -> None:
    (case,) = (case for case in _cases() if case.id == "grid-q0.01-s1-t1000-d1e-05")
    text = explain.paragraph(suite.judge(FunctionAccountant(function=lambda n, q, t, d: 1.0), case), "mine:epsilon")
    assert "noise 1.0, rate 0.01, 1,000 steps, delta 1e-05, add_remove, about one example" in text
    assert "45.3 % too small" in text and "print(epsilon(1.0, 0.01, 1000, 1e-05))" in text


def test_a_published_epsilon_is_possible_impossible_or_undecided() -> None:
    usual = {"sigma": 1.0, "rate": 0.01, "steps": 1000, "delta": 1e-5}
    by_claim = {epsilon: published.decide(published.PublishedTraining(**usual, epsilon=epsilon)) for epsilon in (2.0, 1.5)}
    assert [by_claim[2.0].exit_code, by_claim[1.5].exit_code] == [0, 1]
    assert by_claim[2.0].margin == pytest.approx(0.1717, abs=2e-4) and by_claim[1.5].margin == pytest.approx(-0.3282, abs=2e-4)
    middle = (by_claim[2.0].lower + by_claim[2.0].upper) / 2
    assert published.decide(published.PublishedTraining(**usual, epsilon=middle)).exit_code == 3


def test_no_method_is_tested_if_none_is_asked_for() -> None:
    assert recognition.compare([], methods.make("none")).remark.startswith("no method was tested")
