from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from audit.stats.curves import dp_sgd_curve, tradeoff


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (1e-5, (1.9931, 4.3772, 9.9973)),
        (1e-6, (2.2541, 4.8866, 10.9972)),
        (1e-2, (0.9195, 2.3178, 5.9979)),
        (0.1, (0.2865, 1.1603, 3.8079)),
    ],
)
def test_golden_epsilon_of_gdp(delta: float, expected: tuple[float, ...]) -> None:
    result = [tradeoff.gdp_epsilon(mu, delta) for mu in (0.5, 1.0, 2.0)]
    assert result == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01])
def test_conversions_invert_each_other(mu: float, delta: float) -> None:
    epsilon = tradeoff.gdp_epsilon(mu, delta)
    if epsilon > 0:
        assert tradeoff.gdp_delta(mu, epsilon) == pytest.approx(delta, rel=1e-6)
        assert tradeoff.gdp_mu(epsilon, delta) == pytest.approx(mu, rel=1e-6)


def test_delta_of_gdp_is_the_hockey_stick_divergence() -> None:
    for mu, epsilon in ((0.5, 0.7), (1.0, 2.0), (2.0, 0.0)):

        def excess(x: float, mu: float = mu, epsilon: float = epsilon) -> float:
            return max(stats.norm.pdf(x - mu) - math.exp(epsilon) * stats.norm.pdf(x), 0)

        expected, _ = integrate.quad(excess, -12, 14, limit=400, points=[epsilon / mu + mu / 2])
        assert tradeoff.gdp_delta(mu, epsilon) == pytest.approx(expected, rel=1e-6)


def test_gdp_curve_is_the_envelope_of_its_epsilon_delta_curves() -> None:
    rates = np.array([1e-4, 0.01, 0.2, 0.6])
    envelope = np.min([tradeoff.tpr_allowed(e, tradeoff.gdp_delta(1.0, e), rates) for e in np.linspace(0, 9, 4000)], axis=0)
    assert tradeoff.gdp_tpr(1.0, rates) == pytest.approx(envelope, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_areas_and_advantages_follow_from_the_curve(epsilon: float, delta: float) -> None:
    rates = np.linspace(0, 1, 200_001)
    allowed = tradeoff.tpr_allowed(epsilon, delta, rates)
    assert tradeoff.success_upper(epsilon, delta, 0.2) == pytest.approx(np.interp(0.2, rates, allowed), abs=1e-6)


def test_group_privacy_is_the_chain_of_neighbours() -> None:
    epsilon, delta = tradeoff.group_privacy(0.5, 1e-6, 4)
    chained = 0.0
    for _ in range(4):
        chained = chained * math.exp(0.5) + 1e-6
    assert (epsilon, delta) == (2.0, pytest.approx(chained))


def test_sgd_curve_is_the_gaussian_one_without_sampling() -> None:
    rates = np.array([1e-4, 0.01, 0.3])
    assert dp_sgd_curve.sgd(8.0, 1.0, 64).tpr(rates) == pytest.approx(tradeoff.gdp_tpr(1.0, rates))
    assert dp_sgd_curve.sgd(8.0, 0.9999, 64).tpr(rates) == pytest.approx(tradeoff.gdp_tpr(1.0, rates), rel=2e-3)


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.2, 1), (1.5, 0.3, 20)])
def test_sgd_curve_lies_just_above_the_simulated_likelihood_ratio_test(noise: float, rate: float, steps: int) -> None:
    draw, count = np.random.default_rng(0), 200_000

    def losses(member: bool) -> np.ndarray:
        total = np.zeros(count)
        for _ in range(steps):
            observed = noise * draw.normal(size=count) + (member & (draw.random(count) < rate))
            total += np.log(1 - rate + rate * np.exp((2 * observed - 1) / (2 * noise**2)))
        return total

    member, nonmember = np.sort(losses(True)), np.sort(losses(False))
    curve = dp_sgd_curve.sgd(noise, rate, steps)
    for fpr in (0.01, 0.1, 0.5):
        cut = nonmember[int(count * (1 - fpr))]
        tpr = 1 - np.searchsorted(member, cut) / count
        assert float(curve.tpr(fpr)) == pytest.approx(tpr, abs=0.005)
        assert float(curve.tnr(1 - tpr)) == pytest.approx(1 - fpr, abs=0.006)
    symmetric = dp_sgd_curve.symmetric_sgd(noise, rate, steps)
    rates = np.linspace(0, 1, 501)
    assert (symmetric.tpr(rates) >= np.maximum(curve.tpr(rates), curve.tnr(rates)) - 1e-9).all()
    assert symmetric.tpr(rates) == pytest.approx(symmetric.tnr(rates), abs=1e-6)


def test_epsilon_floor_lies_below_the_curve_s_epsilon() -> None:
    for noise, rate, steps in ((1.0, 0.1, 100), (2.0, 0.25, 60)):
        curve, rates = dp_sgd_curve.sgd(noise, rate, steps), np.geomspace(1e-9, 0.5, 4000)
        read_off = np.log(np.maximum(curve.tpr(rates) - 1e-5, 1e-300) / rates).max()
        floor = dp_sgd_curve.epsilon_floor(noise, rate, steps, 1e-5)
        assert read_off - 0.01 < floor <= read_off + 1e-6


def test_curves_know_their_mirror_image() -> None:
    curve = tradeoff.epsilon_delta(1.0, 0.1)
    assert curve.mirror().mirror() == curve
    for rate in (0.0, 0.2, 0.7):
        reached = float(curve.tpr(rate))
        if 0.1 < reached < 1:
            assert 1 - float(curve.tnr(1 - reached)) == pytest.approx(rate, abs=1e-9)
