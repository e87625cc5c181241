"""The second bracket, in ball arithmetic, against closed forms and against the oracle."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from audit.accounting.accountants.reference import Reference
from audit.core.adjacency import Adjacency
from audit.core.events import Composed, dp_sgd

pytest.importorskip("flint", reason="python-flint is not installed")
pytestmark = pytest.mark.slow


def test_one_step_of_nodes_gives_moments_in_closed_form() -> None:
    """`E z^2` of the sampled Gaussian is `1 + q^2 (exp(1 / sigma^2) - 1)`."""
    from tests.accounting.truths import balls

    balls.ctx.prec = balls.BITS
    for noise, rate in ((1.0, 0.01), (0.6, 0.2), (5.0, 0.001)):
        width, reach = balls._rough(noise, rate, 2.0)
        moment = balls.Mixture.of(noise, rate, width, reach).real(2.0)
        truth = 1 + balls.arb(rate) ** 2 * (1 / balls.arb(noise) ** 2).expm1()
        assert moment.overlaps(truth) and float(moment.rad()) < 1e-6


def test_few_steps_at_a_rate_near_one_are_about_gaussian() -> None:
    from tests.accounting.truths import balls

    low, high = balls.epsilon_ends([(4.0, 1 - 1e-9, 60)], 1e-5, _gaussian(math.sqrt(60) / 4, 1e-5))
    assert low <= _gaussian(math.sqrt(60) / 4, 1e-5) <= high


def _gaussian(mu: float, delta: float) -> float:
    from scipy.optimize import brentq

    return float(
        brentq(lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 0, 100, xtol=1e-14)
    )


@pytest.mark.parametrize(
    ("phases", "delta"),
    [
        ([(1.0, 0.01, 1000)], 1e-5),
        ([(0.8, 0.05, 100)], 1e-8),
        ([(2.0, 0.2, 50)], 1e-6),
        ([(1.0, 0.02, 200), (2.0, 0.05, 100)], 1e-5),
    ],
)
def test_both_brackets_meet(phases: list[tuple[float, float, int]], delta: float) -> None:
    from tests.accounting.truths import balls

    parts = tuple(dp_sgd(noise_multiplier=n, clip_norm=1.0, sample_rate=q, steps=t) for n, q, t in phases)
    event = parts[0] if len(parts) == 1 else Composed(parts=parts)
    low, high = Reference().bracket(event, delta=delta, adjacency=Adjacency.ADD_REMOVE)
    second = balls.epsilon_ends(phases, delta, (low + high) / 2)
    assert low <= second[1] and second[0] <= high
