"""The second bracket, in whole numbers: its curves and ends against closed forms, its figures against the battery's."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import accountant_truths as truths
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from audit.accounting.regression import suite
from audit.core.adjacency import Adjacency
from audit.core.deployed_procedures import AdaptiveClipping
from audit.core.event_reading import kinds
from audit.core.events import Concentrated, Exponential, NonPrivate, SampledWithoutReplacement
from tests.marks import sample

pytest.importorskip("flint", reason="python-flint is not installed")
from flint import arb, ctx

from tests.accounting.truths import curves, second, whole_numbers
from tests.accounting.truths.whole_numbers import Leaf, Plan

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "accountants"
BRACKETS = {case.id: case for case in suite.load() if case.kind == "bracket"}
ASKED = {name: case for name, case in BRACKETS.items() if second.is_asked(case)}
KEPT = truths.read(FOLDER, list(BRACKETS.values()), truths.SECOND)


UNDECIDED = {
    **dict.fromkeys(("edge-I", "edge-J", "rate-1e-5", "rate-1e-7", "rate-1e-8"), "one step's loss is finer than the grid"),
    **dict.fromkeys(("edge-Q", "steps-1e6", "steps-1e7"), "a million steps want a finer grid"),
    "mixed-history": "losses of 25,000 are beyond the digits of the balls",
    "zero-noise": "releases without noise show the record",
}
"""Cases whose pairs have curves and whose second bracket says nothing, or was not computed."""


def without_curve(name: str) -> bool:
    """True if a part of a case has no pair, or one that shows the record."""
    ask = ASKED[name].asks[0]
    fixed = SampledWithoutReplacement in kinds(ask.event) and ask.adjacency is Adjacency.REPLACE_ONE
    return fixed or bool(kinds(ask.event) & {NonPrivate, Concentrated, Exponential, AdaptiveClipping})


def test_every_composed_sampled_case_has_a_second_bracket_that_agrees() -> None:
    assert [name for name in ASKED if name not in KEPT and name not in UNDECIDED and not without_curve(name)] == []
    assert [name for name, truth in KEPT.items() if not truths.agrees(BRACKETS[name], truth)] == []
    assert sum(truth.high <= 1.05 * truth.low for truth in KEPT.values()) > 0.9 * len(KEPT)


def gaussian_epsilon(mu: float, delta: float) -> float:
    return float(
        brentq(lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 0, 200, xtol=1e-14)
    )


def _leaf(curve: curves.Curve, count: int, span: tuple[float, float], variance: float) -> Leaf:
    return Leaf(curve, count, span, 0.0, lambda s: s * (s + 1) * variance / 2)


@pytest.mark.parametrize(("noise", "count"), [(1.0, 1), (3.0, 4), pytest.param(10.0, 50, marks=pytest.mark.slow)])
def test_unsampled_gaussians_have_their_closed_form_inside(noise: float, count: int) -> None:
    truth = gaussian_epsilon(math.sqrt(count) / noise, 1e-5)
    variance = noise**-2
    leaf = _leaf(curves.Normals(noise, 1.0, 1, "remove"), count, (-12 / noise, 12 / noise), variance)
    tilt = (truth + count * variance / 2) / (count * variance)
    plan = Plan(1e-5, truth, tilt, arb(0.03 / math.sqrt(count)))
    low, high = whole_numbers.lower_end([leaf], plan), whole_numbers.upper_end([leaf], plan)
    assert low <= truth <= high <= 1.02 * low


def exact_response(count: int, odds: int, epsilon_losses: int) -> Fraction:
    """Delta of `count` answers that are true with chance odds / (odds + 1), at so many losses, as a fraction."""
    total = Fraction(0)
    for right in range(count + 1):
        loss = 2 * right - count
        if loss > epsilon_losses:
            chance = Fraction(math.comb(count, right) * odds**right, (odds + 1) ** count)
            total += chance * (1 - Fraction(odds) ** (epsilon_losses - loss))
    return total


@pytest.mark.parametrize(("count", "odds", "losses"), [(1, 3, 0), (7, 2, 3), (20, 3, 4), (33, 5, 11), (200, 2, 30)])
def test_randomised_response_to_its_last_digit(count: int, odds: int, losses: int) -> None:
    """Nothing is lost if all losses are places of the grid: both ends are the fraction."""
    ctx.prec = curves.BITS
    loss, mass = arb(odds).log(), arb(odds) / (odds + 1)
    curve = curves.Atoms([(loss, mass), (-loss, 1 - mass)], arb(0))
    reach = math.log(odds)
    leaf = Leaf(curve, count, (-reach, reach), reach, lambda s: math.log((odds ** (s + 1) + odds**-s) / (odds + 1)))
    plan = Plan(1e-300, 0.0, 1.0, 2 * loss / 4)
    truth = exact_response(count, odds, losses)
    epsilon = losses * math.log(odds)
    ends = [
        float(whole_numbers.read_delta(whole_numbers.compose([leaf], plan, side=side), plan.h, epsilon).mid())
        for side in (-1, 1)
    ]
    assert ends == pytest.approx([float(truth)] * 2, rel=1e-12)


WIDE = curves.Normals(0.6, 0.5, 3, "remove")


@pytest.mark.slow
@pytest.mark.parametrize(
    "curve",
    [
        *(curves.Normals(1.0, 0.1, 1, way) for way in ("remove", "add")),
        WIDE,
        curves.Normals(2.0, 0.3, 1, "replace"),
        *(curves.SampledLaplace(1.5, rate, way) for rate in (0.2, 1.0) for way in ("remove", "add")),
    ],
    ids=str,
)
def test_discrete_steps_lie_on_their_sides_of_the_curve(curve: curves.Curve) -> None:
    """At every ratio: below, the curve, above; and close to it if the grid is fine."""
    ctx.prec = curves.BITS
    leaf = Leaf(curve, 1, (-4.0, 16.0 if curve == WIDE else 4.0), 0.0, lambda s: 0.0)
    h = arb(0.03) if not curve.atoms else (curve.atoms[0] - curve.atoms[1]) / 40
    low, high = whole_numbers.below(leaf, h), whole_numbers.above(leaf, h)
    for epsilon in np.random.default_rng(5).uniform(0, 3, 25):
        place = curve.at(arb(epsilon))
        ends = [whole_numbers.read_delta(chances, h, float(epsilon)) for chances in (low, high)]
        assert ends[0] <= place.above + arb(2) ** -150 and place.below <= ends[1] + arb(2) ** -150
        assert float((ends[1] - ends[0]).mid()) < (5e-3 if curve == WIDE else 3e-4)


def test_a_line_of_any_threshold_lies_below_the_curve() -> None:
    ctx.prec = curves.BITS
    for curve in (
        curves.Normals(1.0, 0.1, 1, "add"),
        curves.Normals(1.0, 0.1, 2, "replace"),
        curves.SampledLaplace(0.7, 0.3, "add"),
    ):
        lines = [curve.at(arb(loss)).seen for loss in np.linspace(-2, 2, 9)]
        for loss in np.linspace(-2, 2, 23):
            ratio = arb(loss).exp()
            assert not any(observed - ratio * peer > curve.at(arb(loss)).above + arb(2) ** -150 for observed, peer in lines)


def test_a_window_keeps_its_side() -> None:
    """What a window leaves out makes less below, and more above."""
    ctx.prec = curves.BITS
    leaf = _leaf(curves.Normals(1.0, 1.0, 1, "remove"), 1, (-6.0, 6.0), 1.0)
    for side, build in ((-1, whole_numbers.below), (1, whole_numbers.above)):
        full = build(leaf, arb(0.01))
        cut = whole_numbers._cut(full, (-1.0, 2.0), arb(0.01), side=side)
        for epsilon in (0.0, 0.5, 1.9, 3.0):
            change = whole_numbers.read_delta(cut, arb(0.01), epsilon) - whole_numbers.read_delta(full, arb(0.01), epsilon)
            assert float(change.mid()) * side >= -1e-40


@pytest.mark.slow
@pytest.mark.parametrize("name", sample(((name,) for name in sorted(KEPT)), 12))
def test_the_second_bracket_is_computed_again(name: str) -> None:
    again = second.bracket(BRACKETS[name])
    assert (
        again is not None
        and truths.agrees(BRACKETS[name], again)
        and again.low <= KEPT[name].high
        and KEPT[name].low <= again.high
    )
