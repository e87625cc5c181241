"""Rates at which hardly anything is ever sampled: claims stay safe, say nothing on stderr, and fit into memory."""

from __future__ import annotations

import logging
import math
import warnings

import pytest

from audit.accounting import resolve
from audit.accounting.accountants import _library_renyi
from audit.api import accountant
from audit.core.adjacency import Adjacency
from audit.core.events import Event, dp_sgd
from audit.stats.curves.pld import subsampled_gaussian_epsilon

ADD = Adjacency.ADD_REMOVE


def training(rate: float, steps: int = 1000) -> Event:
    return dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=rate, steps=steps)


@pytest.mark.parametrize("rate", [1e-308, 1e-100, 1e-20, 1e-12])
def test_divergences_that_the_library_rounds_below_zero_are_bounded_instead(rate: float) -> None:
    _, divergences = _library_renyi.step_divergence(1.0, rate, ())
    assert (divergences > 0).all() and (divergences >= rate**2 / 2).all()  # order 1 and above: about order * rate^2 * 0.86


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "delta"), [(1e-308, 1e-5), (1e-9, 1e-8), (1e-12, 1e-10), (1e-7, 1e-12)])
def test_claims_at_tiny_rates_are_safe_and_quiet(rate: float, delta: float, caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        claims = [resolve.subject(name).claim(training(rate), delta=delta, adjacency=ADD).epsilon for name in ("rdp", "renyi")]
        low, high = resolve.subject("reference").bracket(training(rate), delta=delta, adjacency=ADD)  # type: ignore[attr-defined]
    assert not caplog.records
    assert all(low <= claim for claim in claims) and math.isfinite(high)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e-308, 1e-15, 1e-9, 1e-7])
def test_one_fixed_grid_fits_into_memory(rate: float) -> None:
    low, high = (subsampled_gaussian_epsilon(1.0, rate, 1000, 1e-9, side=side) for side in ("lower", "upper"))
    assert 0 <= low <= high < math.inf


def test_where_delta_covers_all_sampling_nothing_is_spent() -> None:
    assert resolve.subject("reference").bracket(training(1e-9), delta=1.1e-6, adjacency=ADD) == (0.0, 0.0)  # type: ignore[attr-defined]


def test_a_number_of_steps_that_is_only_the_last_tried_says_so() -> None:
    capped, plain = (
        accountant.steps(target_epsilon=target, noise_multiplier=1.0, sample_rate=0.01, accountants=["gaussian_clt"])[0]
        for target in (1e308, 1.0)
    )
    assert capped.is_limit and "not tried" in capped.note and not plain.is_limit
