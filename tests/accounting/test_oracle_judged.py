"""The brackets of the battery, judged by methods that share no code with the oracle that computed them."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from pathlib import Path

import accountant_truths as truths
import pytest
from mpmath import mp, mpf

from audit.accounting.regression import suite
from audit.accounting.regression.suite import Case
from audit.core.deployed_events import MatrixFactorization, NoisyMax, Skellam, SparseVector, TreeAggregation
from audit.core.deployed_procedures import (
    AdaptiveClipping,
    BufferedToeplitz,
    CyclicPoisson,
    MixtureOfGaussians,
    ProposeTestRelease,
    RandomAllocation,
    Shuffled,
    SubsampleAggregate,
    TruncatedPoisson,
    Tuned,
)
from audit.core.errors import DataError
from audit.core.event_reading import kinds
from tests.accounting.truths import contour, exactly, judge, losses
from tests.marks import sample

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "accountants"
CASES = {case.id: case for case in suite.load() if case.kind == "bracket"}
KEPT = truths.read(FOLDER, list(CASES.values()))


def test_no_bracket_is_contradicted() -> None:
    assert not [name for name, truth in KEPT.items() if not truths.agrees(CASES[name], truth)]


ELSEWHERE = {
    "test_deployed_events.py": {MatrixFactorization, TreeAggregation, NoisyMax, Skellam, SparseVector},
    "test_procedures.py": {
        *(AdaptiveClipping, BufferedToeplitz, CyclicPoisson, MixtureOfGaussians),
        *(ProposeTestRelease, SubsampleAggregate, TruncatedPoisson),
    },
    "test_amplified_events.py": {RandomAllocation, Shuffled, Tuned},
}
"""Kinds without a stored truth of any case: enumerations, integrals and libraries judge them in these files."""


def test_every_kind_of_mechanism_was_judged() -> None:
    everything = set().union(*(kinds(case.asks[0].event) for case in CASES.values()))
    judged = set().union(*(kinds(CASES[name].asks[0].event) for name in KEPT))
    peers = set().union(*ELSEWHERE.values())
    assert judged | peers == everything and not judged & peers
    for name, judged_there in ELSEWHERE.items():
        text = Path(__file__).with_name(name).read_text()
        assert [kind.__name__ for kind in judged_there if f"{kind.__name__}(" not in text] == []
    assert sum(truth.is_point for truth in KEPT.values()) > len(KEPT) / 2


def test_a_bracket_that_is_off_by_a_part_in_a_thousand_is_contradicted() -> None:
    narrow = [(CASES[name], truth) for name, truth in KEPT.items() if truth.is_point and 0 < truth.low < math.inf]
    assert len(narrow) > 20
    for case, truth in narrow:
        width = case.upper - case.lower + 1e-6 * max(1.0, case.upper)
        for lower, upper in ((case.upper + width, 2 * case.upper + 1), (0.0, case.lower - width)):
            assert not truths.agrees(dataclasses.replace(case, lower=lower, upper=upper), truth)


def test_a_truth_counts_for_the_question_that_was_judged_only(tmp_path: Path) -> None:
    stored = json.loads((FOLDER / truths.NAME).read_text())
    name = next(iter(KEPT))
    stored[name]["question"] = "0" * 16
    (tmp_path / truths.NAME).write_text(json.dumps(stored))
    assert name not in truths.read(tmp_path, list(CASES.values()))
    (tmp_path / truths.NAME).write_text('{"' + name + '": 3}')
    with pytest.raises(DataError, match="truths"):
        truths.read(tmp_path, list(CASES.values()))
    assert truths.read(tmp_path / "nothing", list(CASES.values())) == {}


# ---- the judge against what is known in closed form -------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "steps", "epsilon"), [(1.0, 1, 2.0), (5.0, 100, 9.0), (0.3, 10, 80.0), (50.0, 1000, 0.5)])
def test_the_contour_gives_the_gaussian_curve(noise: float, steps: int, epsilon: float) -> None:
    pair = losses.gaussian_mixture(noise, {1.0: 1.0}, {0.0: 1.0}, 4)
    mu = math.sqrt(steps) / noise
    with mp.workdps(40):
        exact = mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)
    assert contour.delta_at([(pair, steps)], epsilon) == pytest.approx(float(exact), rel=1e-8)


def test_integrals_give_closed_forms() -> None:
    with mp.workdps(40):
        gaussian = mp.ncdf(mpf("-0.5")) - mp.exp(1) * mp.ncdf(mpf("-1.5"))
        assert abs(exactly.normal_mixtures(1.0, {1.0: 1.0}, {0.0: 1.0}, 1.0) - gaussian) < mpf("1e-30")
        laplace = 1 - mp.exp((mpf("0.3") - 1) / 2)
        assert abs(exactly.laplace_mixtures(1.0, {1.0: 1.0}, {0.0: 1.0}, mpf("0.3")) - laplace) < mpf("1e-30")


@pytest.mark.slow
def test_two_laplace_releases_by_two_methods() -> None:
    """Truncated powers against the double integral over both losses, done one release at a time."""
    epsilon, top = 0.7, Fraction(1, 2)
    with mp.workdps(30):
        item = lambda e: exactly.laplace_mixtures(2.0, {1.0: 1.0}, {0.0: 1.0}, e) if e < 0.5 else mpf(0)  # noqa: E731
        edges = mp.exp(-mpf("0.5")) / 2 * item(mpf("1.2")) + item(mpf("0.2")) / 2
        density = lambda x: mp.exp(-(1 - x) / 2) / 4  # noqa: E731
        middle = mp.quad(lambda x: density(x) * item(mpf(epsilon) - (2 * x - 1) / 2), [mpf("0.7"), 1], maxdegree=3)
        assert float(exactly.laplace_composed([(top, 2)], epsilon, 60)) == pytest.approx(float(edges + middle), rel=1e-8)


def test_a_group_of_pure_mechanisms_by_its_chain() -> None:
    """Three changes of epsilon 1 at delta 0: the largest loss is three, reached with the mass of the truncated chain."""
    atoms = exactly.group_curve(1.0, 0.0, 3)
    assert max(atoms) == pytest.approx(3.0) and sum(atoms.values()) == pytest.approx(1.0)
    approximate = exactly.group_curve(0.5, 1e-6, 2)
    assert float(approximate[mp.inf]) == pytest.approx(1e-6 * (1 + math.exp(0.5)), rel=1e-12)


def test_atoms_compose_as_binomials() -> None:
    with mp.workdps(exactly.DIGITS):
        atoms = {mpf(1): mpf(3) / 4, mpf(-1): mpf(1) / 4}
        squared, binomial = exactly.composed([(atoms, 9)]), exactly.binomial_atoms(mpf(3) / 4, mpf(1), 9)
        for epsilon in (0.5, 3.0, 8.5):
            delta = exactly.delta_of_atoms(squared, mpf(epsilon))
            assert abs(delta - exactly.delta_of_atoms(binomial, mpf(epsilon))) < mpf("1e-40")


def test_integers_against_their_closed_forms() -> None:
    """Two-sided geometric noise has three losses, and discrete Gaussian noise loses as much as its place is off the middle."""
    with mp.workdps(exactly.DIGITS):
        geometric = exactly.shifted_integers(lambda k: -abs(k) / mpf(2), 2, 300)
        fall = mp.exp(mpf(-1) / 2)
        expected = {mpf(1): 1 / (1 + fall), mpf(0): (1 - fall) / (1 + fall) * fall, mpf(-1): fall**2 / (1 + fall)}
        assert len(geometric) == 3
        for loss, mass in expected.items():
            assert abs(geometric[min(geometric, key=lambda peer: abs(peer - loss))] - mass) < mpf("1e-40")
        gaussian = exactly.shifted_integers(lambda k: -(mpf(k) ** 2) / 2, 1, 17)
        assert abs(mp.fsum(mass * mp.exp(-loss) for loss, mass in gaussian.items()) - 1) < mpf("1e-40")
        assert all(abs(loss + mp.mpf(1) / 2 - round(float(loss) + 0.5)) < mpf("1e-40") for loss in gaussian)


def test_a_contour_that_does_not_fade_is_no_judge() -> None:
    with pytest.raises(contour.NotConverged):
        contour.delta_at([(losses.discrete({1.0: 0.7, -1.0: 0.3}), 3)], 1.5)


# ---- the slow suite -------------------------------------------------------------------------------------------------


MINUTES = {"response-p0.99-k3-t1000", "metric-laplace-50-n1000-b0.05", "parallel-of-sequences", "parallel-max", "zcdp-50"}
LONG = [pytest.param(name, marks=pytest.mark.calibration) for name in sorted(MINUTES)]


@pytest.mark.parametrize("name", sample(((name,) for name in sorted(KEPT.keys() - MINUTES)), 7) + LONG)
def test_the_truth_is_computed_again(name: str) -> None:
    again = judge.truth(CASES[name])
    assert again is not None and again.method == KEPT[name].method
    assert (again.low, again.high) == pytest.approx((KEPT[name].low, KEPT[name].high), rel=1e-7, abs=1e-10)


DIRECT = sample([("edge-E",), ("edge-D",), ("edge-U",), ("noise-0.5",), ("edge-O",), ("published-quickstart",)], 3)


@pytest.mark.parametrize("name", DIRECT)
def test_composed_sampled_gaussians_by_direct_integration_at_fifty_digits(name: str) -> None:
    case: Case = CASES[name]
    (event, count, _), *_ = next(judge._ways(case.asks[0].event, 1, 1))
    noise, rate = float(event.mechanism.noise_multiplier), float(event.sample_rate)  # type: ignore[attr-defined]
    delta = case.asks[0].delta
    for epsilon, above in ((case.lower, True), (case.upper, False)):
        result = []
        for direction in ("remove", "add"):
            parts = [(judge._parts([(event, 1, 1)], direction, 8) or [])[0]]
            composed = [(parts[0][0], count)]
            tilt, log_size = contour.saddle(composed, epsilon)
            if log_size < math.log(delta) - 30:
                continue  # the other direction decides
            spread = contour._spread(composed, tilt)
            result.append(
                exactly.sampled_gaussian_composed(
                    noise, rate, count, direction, epsilon, tilt=tilt, spread=spread, log_size=log_size
                )
            )
        assert (max(result) >= delta) if above else (max(result) <= delta)
