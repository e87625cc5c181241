"""The estimate of the PRV method beside the same mesh in 50 digits, and the mean of a step's loss in as many."""

from __future__ import annotations

import itertools
import math

import pytest
from mpmath import mp, mpf

from audit.stats.curves.prv_mesh import _moments, estimates

_ONE = 10**60  # fixed point: products of two masses are exact


def _mean(noise: float, rate: float) -> mpf:
    """Mean of one step's loss under the training with the record."""
    s, q = mpf(noise), mpf(rate)

    def moment(x: mpf) -> mpf:
        density = ((1 - q) * mp.exp(-x * x / 2 / s**2) + q * mp.exp(-((x - 1) ** 2) / 2 / s**2)) / (s * mp.sqrt(2 * mp.pi))
        return density * mp.log(1 - q + q * mp.exp((2 * x - 1) / (2 * s * s)))

    return mp.quad(moment, sorted({place + k * s / 2 for k in range(-32, 33) for place in (0, 1)}))


def _chance_below(loss: mpf, noise: mpf, rate: mpf) -> mpf:
    ratio = mp.expm1(loss) / rate + 1
    if ratio <= 0:
        return mpf(0)
    output = noise**2 * mp.log(ratio) + mpf(1) / 2
    return (1 - rate) * mp.ncdf(output / noise) + rate * mp.ncdf((output - 1) / noise)


def _exact_estimate(noise: float, rate: float, delta: float, error: float, delta_error: float) -> float:
    """Return the estimate for two steps: masses of the mesh, their mean kept, multiplied as whole numbers."""
    s, q = mpf(noise), mpf(rate)
    mesh = mpf(error / math.sqrt(math.log(12 / delta_error)))
    cells = int(mpf(12) / mesh)
    below = [_chance_below((place - mpf(1) / 2) * mesh, s, q) for place in range(-cells, cells + 2)]
    masses = [second - first for first, second in itertools.pairwise(below)]
    total = mp.fsum(masses)
    shift = 2 * (_mean(noise, rate) - mesh * mp.fsum(place * mass for place, mass in enumerate(masses, -cells)) / total)
    width = 64  # bytes of a coefficient
    packed = int.from_bytes(b"".join(int(mass / total * _ONE).to_bytes(width, "little") for mass in masses), "little")
    square = (packed * packed).to_bytes(width * 2 * len(masses), "little")
    sums = [int.from_bytes(square[start : start + width], "little") for start in range(0, len(square) - width, width)]
    pairs = [(place * mesh + shift, mpf(mass) / _ONE**2) for place, mass in enumerate(sums, -2 * cells)]
    tail = [(loss, mass) for loss, mass in pairs if loss > 0]

    def excess(epsilon: mpf) -> mpf:
        return -mp.fsum(mass * mp.expm1(epsilon - loss) for loss, mass in tail if loss > epsilon)

    low, high = mpf(0), mpf(24)
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return float(high)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "rate"), [(0.6, 0.01), (0.3, 0.01), (1.36, 0.1)])
def test_the_mean_of_a_loss_is_right_in_all_digits(noise: float, rate: float) -> None:
    with mp.workdps(50):
        assert float(abs(_moments(noise, rate)[0] / _mean(noise, rate) - 1)) < 1e-13


@pytest.mark.slow
def test_the_estimate_is_that_of_the_same_mesh_in_fifty_digits() -> None:
    with mp.workdps(50):
        exact = _exact_estimate(0.8, 0.1, 1e-5, 0.02, 1e-8)
    (estimate,) = estimates([(0.8, 0.1, 2)], [1e-5], error=0.02, delta_error=1e-8)
    assert estimate == pytest.approx(exact, rel=1e-9)
