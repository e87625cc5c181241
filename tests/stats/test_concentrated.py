"""The zCDP mechanism that almost uses the conversion up is zCDP at every order, and costs more than the Gaussian one."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.stats.curves import renyi
from audit.stats.curves.concentrated import _rarest, largest_rho, zcdp_epsilon_floor
from audit.stats.curves.tradeoff import gdp_epsilon
from tests.marks import slow_rows


def divergence(order: float, loss: float, mass: float) -> tuple[float, float]:
    """Renyi divergence of the two-outcome pair both ways, by arbitrary precision."""
    with mpmath.workdps(40):
        p, a = mpmath.mpf(mass), mpmath.mpf(order)
        q = p * mpmath.exp(-mpmath.mpf(loss))
        forward = mpmath.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) / (a - 1)
        backward = mpmath.log(q**a * p ** (1 - a) + (1 - q) ** a * (1 - p) ** (1 - a)) / (a - 1)
    return float(forward), float(backward)


@given(loss=st.floats(0.01, 20), log_mass=st.floats(-40, -0.1), log_order=st.floats(-6, 5))
@settings(max_examples=60, deadline=None)
def test_the_parameter_is_above_the_divergence_over_the_order(loss: float, log_mass: float, log_order: float) -> None:
    order, mass = 1 + math.exp(log_order), math.exp(log_mass)
    rho = largest_rho(loss, mass)
    assert max(divergence(order, loss, mass)) <= rho * order * (1 + 1e-9) + 1e-12


RHOS = [(1e-4, 1e-5), (0.01, 1e-6), (0.5, 1e-5), (5.0, 1e-9), (50.0, 1e-6)]


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "delta"), slow_rows(RHOS, RHOS[1:4]))
def test_the_floor_lies_just_below_the_conversion(rho: float, delta: float) -> None:
    floor, ceiling = zcdp_epsilon_floor(rho, delta), renyi.zcdp_epsilon(rho, delta)
    assert gdp_epsilon(math.sqrt(2 * rho), delta) < floor < ceiling and ceiling - floor < 3e-3 * ceiling


@pytest.mark.slow
def test_the_mechanism_found_has_that_delta() -> None:
    rho, delta = 0.5, 1e-5
    floor = zcdp_epsilon_floor(rho, delta)
    losses = [floor + 0.05 * step for step in range(1, 40)]
    reached = max(math.exp(_rarest(loss, rho)) * -math.expm1(floor - loss) for loss in losses)
    assert reached == pytest.approx(delta, rel=3e-2)


def test_a_large_parameter_has_a_floor_or_none_and_never_an_error() -> None:
    floor = zcdp_epsilon_floor(916.0, 1e-6)
    assert gdp_epsilon(math.sqrt(2 * 916), 1e-6) < floor < renyi.zcdp_epsilon(916.0, 1e-6)
    assert zcdp_epsilon_floor(50.0, 1e-300) > 0 and _rarest(3000.0, 0.5) == -math.inf
