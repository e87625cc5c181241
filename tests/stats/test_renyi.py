"""Each divergence twice: float64 against arbitrary precision or quadrature, to 1e-10."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.stats.curves import renyi
from audit.stats.curves.tradeoff import gdp_delta, gdp_epsilon


def exact_divergence(order: float, noise: float, rate: float, *, digits: int = 40) -> Any:
    """The divergence of the sampled Gaussian mechanism to about `digits` digits as an mpmath number; any order above 1.

    Whole orders by the exact binomial sum. Other orders by tanh-sinh quadrature over panels, repeated at double precision
    until both agree.

    Raises:
        ArithmeticError: the two quadratures do not agree to ten digits.
    """
    with mpmath.workdps(digits + 15):
        a, s, q = mpmath.mpf(order), mpmath.mpf(noise), mpmath.mpf(rate)
        if float(order).is_integer():
            full = int(order)
            total = mpmath.fsum(
                mpmath.binomial(full, k) * (1 - q) ** (full - k) * q**k * mpmath.exp(mpmath.mpf(k * (k - 1)) / (2 * s * s))
                for k in range(full + 1)
            )
            return mpmath.log(total) / (a - 1)
        cuts = [-16 * s + i * 2 * s for i in range(int((float(order) + 32 * noise) / (2 * noise)) + 2)]

        def integrand(x: Any) -> Any:
            ratio = 1 - q + q * mpmath.exp((2 * x - 1) / (2 * s * s))
            return mpmath.npdf(x, 0, s) * (ratio**a - 1 - a * (ratio - 1))

        rough, fine = (mpmath.quad(integrand, cuts, maxdegree=degree) for degree in (6, 8))
        if abs(rough - fine) > abs(fine) * mpmath.mpf(10) ** -10:
            raise ArithmeticError(f"quadrature at order {order}, noise {noise}, rate {rate}: {rough} against {fine}")
        return mpmath.log1p(fine) / (a - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "noise", "rate"),
    [
        (2.0, 1.0, 0.01),
        (63.0, 0.8, 0.02),
        (256.0, 4.0, 0.001),
        (1024.0, 20.0, 0.05),
        (3.5, 1.0, 0.01),
        (1.1, 50.0, 0.1),
        (1.01, 1.0, 0.01),
        (1.1, 1.0, 1e-8),
        pytest.param(12.5, 1.0, 0.999, marks=pytest.mark.slow),
    ],
)
def test_subsampled_gaussian_agrees_with_arbitrary_precision(order: float, noise: float, rate: float) -> None:
    exact = float(exact_divergence(order, noise, rate))
    assert renyi.subsampled_gaussian(order, noise, rate) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("order", [2.0, 5.0, 30.0])
def test_whole_orders_by_sum_and_by_quadrature(order: float) -> None:
    near = renyi.subsampled_gaussian(math.nextafter(order, 2 * order), 1.3, 0.07)
    assert renyi.subsampled_gaussian(order, 1.3, 0.07) == pytest.approx(near, rel=1e-10)


@given(noise=st.floats(0.3, 30), order=st.floats(1.02, 60))
@settings(max_examples=50, deadline=None)
def test_rate_one_and_monotone_in_order(noise: float, order: float) -> None:
    assert renyi.subsampled_gaussian(order, noise, 1.0) == renyi.gaussian(order, noise)
    small = renyi.subsampled_gaussian(order, noise, 0.1)
    assert 0 <= small <= renyi.gaussian(order, noise) * (1 + 1e-9)
    assert small <= renyi.subsampled_gaussian(order * 1.1, noise, 0.1) * (1 + 1e-9)


@pytest.mark.parametrize(("order", "scale"), [(1.5, 1.0), (2.0, 0.3), (20.0, 5.0)])
def test_laplace_by_integration(order: float, scale: float) -> None:
    def integrand(x: mpmath.mpf) -> mpmath.mpf:
        first, second = mpmath.exp(-abs(x - 1) / scale), mpmath.exp(-abs(x) / scale)
        return first**order * second ** (1 - order) / (2 * scale)

    total = mpmath.quad(integrand, [-mpmath.inf, 0, 1, mpmath.inf])
    assert renyi.laplace(order, scale) == pytest.approx(float(mpmath.log(total)) / (order - 1), rel=1e-10)
    assert renyi.subsampled_laplace(order, scale, 1.0) == pytest.approx(renyi.laplace(order, scale), rel=1e-10)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_subsampled_laplace_by_integration(direction: str) -> None:
    order, scale, rate = 3.5, 0.7, 0.2

    def integrand(x: mpmath.mpf) -> mpmath.mpf:
        absent = mpmath.exp(-abs(x) / scale) / (2 * scale)
        present = (1 - rate) * absent + rate * mpmath.exp(-abs(x - 1) / scale) / (2 * scale)
        first, second = (present, absent) if direction == "remove" else (absent, present)
        return first**order * second ** (1 - order)

    total = mpmath.quad(integrand, [-mpmath.inf, 0, 1, mpmath.inf])
    result = renyi.subsampled_laplace(order, scale, rate, direction=direction)  # type: ignore[arg-type]
    assert result == pytest.approx(float(mpmath.log(total)) / (order - 1), rel=1e-10)


@pytest.mark.parametrize(("parameter", "buckets"), [(0.5, 2), (0.1, 10), (0.99, 3)])
def test_randomised_response_by_its_sum(parameter: float, buckets: int) -> None:
    first = np.full(buckets, parameter / buckets)
    second = first.copy()
    first[0] += 1 - parameter
    second[1] += 1 - parameter
    for order in (1.3, 2.0, 11.0):
        want = math.log(float(np.sum(first**order * second ** (1 - order)))) / (order - 1)
        assert renyi.randomised_response(order, parameter, buckets) == pytest.approx(want, rel=1e-9)
    assert renyi.randomised_response(2.0, 0.0, buckets) == math.inf


@pytest.mark.parametrize("mu", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-12])
def test_gaussian_delta_by_arbitrary_precision(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu, delta)
    with mpmath.workdps(60):
        tail = mpmath.ncdf(mpmath.mpf(mu) / 2 - mpmath.mpf(epsilon) / mu)
        exact = tail - mpmath.exp(epsilon) * mpmath.ncdf(-mpmath.mpf(mu) / 2 - mpmath.mpf(epsilon) / mu)
    assert gdp_delta(mu, epsilon) == pytest.approx(float(exact), rel=1e-10)


@given(rho=st.floats(1e-5, 50), delta=st.floats(1e-12, 1e-2))
@settings(max_examples=60, deadline=None)
def test_conversions_are_ordered_and_above_the_gaussian(rho: float, delta: float) -> None:
    orders = list(renyi.ORDERS)
    divergences = [rho * order for order in orders]
    classic, improved = (
        renyi.epsilon_classic(orders, divergences, delta)[0],
        renyi.epsilon_improved(orders, divergences, delta)[0],
    )
    best = renyi.zcdp_epsilon(rho, delta)
    true = gdp_epsilon(math.sqrt(2 * rho), delta)
    assert true * (1 - 1e-9) <= best <= improved + 1e-9 and best <= classic + 1e-9
