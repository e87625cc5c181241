"""The largest of several releases: its law is that of simulations, and it says no more than the release that is shifted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.stats.curves import pld
from audit.stats.curves.largest_release import EDGES, cells, shifts_told_apart
from audit.stats.curves.loss_pairs import subsampled_gaussian


def test_chances_of_cells_are_those_of_simulated_releases() -> None:
    """They add up to 1 and agree within five standard errors."""
    count, shift, runs = 5, 2.0, 200_000
    chances = cells(count, shift)
    assert chances.sum() == pytest.approx(1, abs=1e-12) and (chances > 0).all()
    releases = np.random.default_rng(0).normal(size=(runs, count))
    releases[:, 0] += shift
    places = np.searchsorted(EDGES, releases.max(axis=1))
    for start in range(250, 450, 25):  # half a standard deviation each, from 1 to 5
        share, expected = np.mean((places >= start) & (places < start + 25)), chances[start : start + 25].sum()
        assert abs(share - expected) <= 5 * math.sqrt(expected / runs)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("count", [1, 5])
def test_it_tells_no_more_than_the_shifted_release_alone(count: int) -> None:
    """One release is distinguished almost as its Gaussian pair; among several, less."""
    pair = shifts_told_apart(count, 2.0, 1.0)
    low, high = pld.epsilon_bracket([(lambda way, tail: pair, 12)], 1e-5)
    known = pld.epsilon_bracket([(lambda way, tail: subsampled_gaussian(1.0, 1.0, way, log_tail=tail), 12)], 1e-5)
    assert low <= known[1]
    assert high > known[0] - 0.01 if count == 1 else high < known[0] - 1


@pytest.mark.filterwarnings("error")
def test_cells_below_all_floats_leave_every_loss_finite() -> None:
    """The largest of a thousand releases is never at the low edge, in floats; it shows less than that of ten."""
    pair = shifts_told_apart(1000, 2.0, 1.0)
    assert all(math.isfinite(loss) and mass > 0 for loss, mass in pair.atoms)
    assert sum(mass for _, mass in pair.atoms) == pytest.approx(1, abs=1e-12)
    few = shifts_told_apart(10, 2.0, 1.0)
    low, high = (pld.epsilon_bracket([(lambda way, tail, pair=case: pair, 1)], 1e-5) for case in (pair, few))
    assert low[1] < high[0]
