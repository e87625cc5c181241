"""Random compositions of events: brackets in order, and the relations that hold between true epsilons between them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.accounting.accountants.reference import Reference
from audit.accounting.accountants.renyi import Renyi
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_changes import with_noise_factor
from audit.core.events import ApproximateDp, Composed, Event, Gaussian, Grouped, Laplace, PoissonSampled, Repeated

ORACLE = Reference(tolerance=1e-2)
SLACK = 1 + 1e-7
ADD = Adjacency.ADD_REMOVE
SIZES = [pytest.param(20, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.calibration)]

noises = st.floats(0.4, 20)
steps = st.one_of(
    noises.map(lambda noise: Gaussian(noise_multiplier=noise)),
    noises.map(lambda scale: Laplace(noise_multiplier=scale)),
    st.builds(
        lambda noise, rate: PoissonSampled(mechanism=Gaussian(noise_multiplier=noise), sample_rate=rate),
        noises,
        st.floats(1e-4, 0.9),
    ),
    st.builds(
        lambda scale, rate: PoissonSampled(mechanism=Laplace(noise_multiplier=scale), sample_rate=rate),
        noises,
        st.floats(1e-3, 0.9),
    ),
    st.builds(lambda epsilon: ApproximateDp(epsilon=epsilon, delta=0.0), st.floats(0.01, 2)),
)
repeated = st.builds(lambda step, count: Repeated(mechanism=step, count=count), steps, st.integers(1, 200))
composed = st.lists(st.one_of(steps, repeated), min_size=1, max_size=3).map(lambda parts: Composed(parts=tuple(parts)))
deltas = st.floats(-9, -2).map(lambda power: 10**power)


def ends(event: Event, delta: float) -> tuple[float, float]:
    (low, high), doubt = ORACLE.explain(event, delta=delta, adjacency=ADD)
    assert 0 <= low <= high, (event, doubt)
    return low, high


def at_most(less: tuple[float, float], more: tuple[float, float]) -> bool:
    """No contradiction to the first truth being at most the second."""
    return less[0] <= more[1] * SLACK + 1e-9


def searched(check: Callable[..., None], examples: int, **drawn: st.SearchStrategy[Any]) -> None:
    chosen = settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    chosen(given(**drawn)(check))()


@pytest.mark.parametrize("examples", SIZES)
def test_relations_between_true_epsilons(examples: int) -> None:
    searched(relations, examples, event=composed, peer=steps, delta=deltas, factor=st.floats(1.0, 3.0))


@pytest.mark.parametrize("examples", SIZES)
def test_a_group_costs_at_least_one_record_and_divergences_at_least_the_truth(examples: int) -> None:
    searched(groups_and_divergences, examples, event=composed, delta=deltas)


def relations(event: Composed, peer: Event, delta: float, factor: float) -> None:
    here = ends(event, delta)
    more = Composed(parts=(*event.parts, peer))
    assert at_most(here, ends(more, delta)), "one release more cannot cost less"
    assert at_most(ends(event, min(delta * 3, 0.5)), here), "a larger delta cannot cost more"
    reordered = ends(Composed(parts=event.parts[::-1]), delta)
    assert at_most(here, reordered) and at_most(reordered, here), "the order of parts does not count"
    with contextlib.suppress(ConfigError):  # guarantees alone have no noise
        assert at_most(ends(with_noise_factor(event, factor), delta), here), "more noise cannot cost more"
    twice, pair = ends(Repeated(mechanism=event, count=2), delta), ends(Composed(parts=(event, event)), delta)
    assert at_most(twice, pair) and at_most(pair, twice), "twice is two"
    total = ends(event, delta / 2)[1] + ends(peer, delta / 2)[1]
    assert ends(more, delta)[0] <= total * SLACK + 1e-9, "basic composition is an upper bound"


def groups_and_divergences(event: Composed, delta: float) -> None:
    low, high = ends(event, delta)
    with contextlib.suppress(UnsupportedMechanism):  # groups of sampled Laplace releases have no proof
        assert at_most((low, high), ends(Grouped(mechanism=event, size=2), delta)), "two records cannot cost less than one"
    try:
        claim = Renyi().claim(event, delta=delta, adjacency=ADD).epsilon
    except UnsupportedMechanism:
        return
    assert not math.isnan(claim) and claim >= low / SLACK
