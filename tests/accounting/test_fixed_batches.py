"""Batches of fixed size under replace-one: both ends of what adaptive steps cost, against direct integration and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import norm

from audit.stats.curves import fixed_batches, pld, record_triples
from audit.stats.curves.adaptive_composition import Kernel, Programme
from audit.stats.curves.fixed_batches import BatchSetting, dominating_triple, worse_kernel
from audit.stats.curves.record_triples import Gram


def setting(noise: float, rate: float, steps: int, delta: float, density: float = 16.0) -> BatchSetting:
    high = pld.without_replacement_bracket(noise, rate, steps, delta)[1]
    return BatchSetting(noise=noise, rate=rate, steps=steps, delta=delta, epsilon_limit=high, density=density)


def integrated(noise: float, rate: float, spot: float, ratio: float) -> float:
    """`P(S) - ratio Q(S)` of one step on a line: the record at 1, its replacement at -1, the displaced one at `spot`."""

    def gap(x: float) -> float:
        remainder = (1 - rate) * norm.pdf(x, spot, noise)
        return max(0.0, remainder + rate * norm.pdf(x, 1, noise) - ratio * (remainder + rate * norm.pdf(x, -1, noise)))

    return float(integrate.quad(gap, -1 - 10 * noise, 1 + 10 * noise, limit=400, points=[-1, spot, 1])[0])


def curve(item: Kernel, step: float, ratio: float) -> float:
    losses = (item.first + np.arange(len(item.mass))) * step
    return float(np.sum(item.mass * np.maximum(0.0, -np.expm1(math.log(ratio) - losses)))) + item.infinite


@pytest.mark.sampled(5)
@pytest.mark.parametrize("spot", [-1.0, -0.4, 0.3, 1.0])
@pytest.mark.parametrize("ratio", [0.9, 0.99, 1.0, 1.02, 1.5])
def test_a_kernel_lies_above_and_close_to_direct_integration(spot: float, ratio: float) -> None:
    noise, rate, step = 1.5, 0.1, 0.002
    gram = Gram(
        member=(1 - spot) ** 2 / noise**2, replacement=(1 + spot) ** 2 / noise**2, product=-(1 - spot) * (1 + spot) / noise**2
    )
    item = record_triples.above(gram, rate, step=step, tail=1e-14, width=0.02)
    truth = integrated(noise, rate, spot, ratio)
    assert truth - 1e-9 <= curve(item, step, ratio) <= truth * 1.01 + 2e-5
    assert float(item.mass.sum()) + item.infinite == pytest.approx(1, abs=1e-9)


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0, 2 * math.pi), st.floats(0, 1)), min_size=3, max_size=3), st.floats(0, 1))
@settings(max_examples=300, deadline=None, database=None)
def test_every_triple_is_under_the_matrix_of_some_box(places: list[tuple[float, float]], share: float) -> None:
    """Inscribed triangles by three arcs, shrunk: some box of a cover has a Gram matrix that is larger in every direction."""
    x, a, b = (np.array([math.cos(angle), math.sin(angle)]) for angle, _ in places)
    member, peer = a - x, b - x
    gram = share**2 * np.array([[member @ member, member @ peer], [member @ peer, peer @ peer]])
    cuts = np.linspace(0, math.pi / 2, 9)
    sides = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
    if not holds_centre([angle for angle, _ in places]):
        return
    least = []
    for first in sides:
        for second in sides:
            box = dominating_triple((first, second), 1.0)
            if box is not None:
                larger = np.array([[box.member, box.product], [box.product, box.replacement]])
                least.append(float(np.linalg.eigvalsh(larger - gram)[0]))
    assert max(least) >= -1e-9


def holds_centre(angles: list[float]) -> bool:
    first, second, third = sorted(angles)
    return max(second - first, third - second, 2 * math.pi + first - third) <= math.pi


def test_one_step_is_the_known_epsilon() -> None:
    noise, rate, delta = 2.0, 0.05, 1e-6
    known = pld.without_replacement_bracket(noise, rate, 1, delta)
    fine = setting(noise, rate, 1, delta, density=64.0)
    programme = fine.programme(fine.ends(1), 1)
    programme.advance()
    assert known[0] * 0.999 <= fixed_batches.lower(fine) <= known[1]
    assert known[0] <= programme.epsilon(delta) <= known[1] * 1.001


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"), [pytest.param(4.0, 0.1, 20, 1e-5, marks=pytest.mark.slow), (2.0, 0.2, 5, 1e-6)]
)
def test_both_ends_lie_inside_the_old_ones_and_in_order(noise: float, rate: float, steps: int, delta: float) -> None:
    old = pld.without_replacement_bracket(noise, rate, steps, delta)
    low, high = fixed_batches.closer(old, noise, rate, steps, delta, tolerance=1e-3)
    assert old[0] <= low <= high <= old[1]
    assert high - low < 0.75 * (old[1] - old[0])


def test_two_steps_by_enumeration() -> None:
    """Two steps, the second chosen after the first: a Riemann sum over the first output, with exact integrals of the second."""
    noise, rate, epsilon = 2.0, 0.3, 1.0
    x, width = np.linspace(-21, 21, 4001, retstep=True)
    rows = {}
    for spot in (-1.0, 1.0):
        remainder = (1 - rate) * norm.pdf(x, spot, noise)
        rows[spot] = remainder + rate * norm.pdf(x, 1, noise), remainder + rate * norm.pdf(x, -1, noise)

    def best(ratio: float) -> float:
        return max(float(np.maximum(p - ratio * q, 0).sum() * width) for p, q in rows.values())

    delta = max(
        float(sum(p * best(math.exp(epsilon) * q / p) * width for p, q in zip(*row, strict=True))) for row in rows.values()
    )
    fine = BatchSetting(noise=noise, rate=rate, steps=2, delta=delta, epsilon_limit=1.5, density=64.0)
    above = fine.programme(fine.ends(1), 1)
    above.advance()
    above.advance()
    assert fixed_batches.lower(fine) <= epsilon + 1e-6
    assert fixed_batches.lower(fine) == pytest.approx(epsilon, abs=0.01)
    assert epsilon - 1e-6 <= above.epsilon(delta) <= epsilon * 1.001


def test_the_worse_of_two_kernels_is_above_both_and_no_more_than_needed() -> None:
    step = 0.01
    gain, loss = (
        record_triples.above(gram, 0.2, step=step, tail=1e-13, width=0.1)
        for gram in (Gram(member=1, replacement=0, product=0), Gram(member=0, replacement=1, product=0))
    )
    both = worse_kernel(gain, loss, step)
    for log in (-0.3, -0.05, 0.0, 0.01, 0.1, 0.5):
        ratio = math.exp(step * round(log / step))
        larger = max(curve(gain, step, ratio), curve(loss, step, ratio))
        assert larger - 1e-12 <= curve(both, step, ratio) <= larger + 1e-9


def test_what_leaves_the_grid_counts_on_the_right_side() -> None:
    certain = Kernel(first=50, mass=np.array([1.0]))
    above = Programme([certain], step=0.1, start=-10, stop=11, sign=1)
    below = Programme([certain], step=0.1, start=-10, stop=11, sign=-1)
    above.advance()
    below.advance()
    truth = np.maximum(0, -np.expm1(np.arange(-10, 11) * 0.1 - 5.0))
    assert np.all(above.values >= truth - 1e-12) and np.all(below.values <= truth + 1e-12)
    assert above.epsilon(1e-5) == math.inf
