"""Every event has a stratum that draws it, and every field a case far beyond the usual ones; planted cuts are found."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pytest

from audit.accounting.accountants.reference import Reference
from audit.accounting.regression import suite
from audit.accounting.regression.fuzzing import schema
from audit.accounting.regression.fuzzing import search as fuzzing
from audit.accounting.regression.fuzzing.draws import Draws
from audit.accounting.regression.fuzzing.strata import STRATA
from audit.accounting.regression.suite import CaseFinding
from audit.accounting.resolve import FunctionAccountant
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.deployed_events import DiscreteGaussian, MatrixFactorization, NoisyMax, Skellam, TreeAggregation
from audit.core.deployed_procedures import (
    AdaptiveClipping,
    CyclicPoisson,
    MixtureOfGaussians,
    RandomAllocation,
    Shuffled,
    Tuned,
)
from audit.core.errors import ConfigError
from audit.core.event_forms import kinds_by_name
from audit.core.event_reading import nodes, rebuilt
from audit.core.events import Composed, Event, Grouped, Laplace, PoissonSampled, RandomizedResponse, Repeated
from audit.stats.curves.pld import subsampled_gaussian_epsilon as exact
from tests.accounting.truths.field_cases import FORMS, TIMES, is_beyond, is_shown, stored_values
from tests.marks import sample

KINDS = kinds_by_name()


def test_every_event_has_a_stratum_that_draws_it() -> None:
    for name, kind in KINDS.items():
        draws = Draws(np.random.Generator(np.random.PCG64(3)))
        asks = [STRATA[f"event {name}"](draws) for _ in range(40)]
        assert all(any(isinstance(node, kind) for node in nodes(ask.event)) for ask in asks), name  # type: ignore[union-attr]
        assert len({str(ask.adjacency) for ask in asks}) > 1, name  # type: ignore[union-attr]


def test_a_field_without_a_range_is_an_error_that_names_it() -> None:
    event = dataclasses.make_dataclass("Fresh", [("surprise", float)], bases=(Laplace,), frozen=True, kw_only=True)
    with pytest.raises(ConfigError, match="the field surprise of Fresh has no range"):
        schema.fields(event)


@pytest.mark.slow
def test_every_field_has_two_cases_far_beyond_the_usual() -> None:
    stored, usual = stored_values(suite.load_checked()), stored_values(suite.load())
    gaps = []
    for name, kind in KINDS.items():
        for field in schema.fields(kind):
            values = stored[name, field]
            middle = median(usual[name, field] or [math.sqrt(math.prod(schema.SPANS[field].usual))])
            if sum(is_beyond(value, middle) for value in values) < 2:
                gaps.append((name, field, middle, sorted(set(values))[-3:]))
    assert not gaps, f"fewer than two cases {TIMES:g} times beyond the median: {gaps}"


UNPROVED = {
    **dict.fromkeys(((("NonPrivate", form)) for form in FORMS), "it costs everything wherever it stands"),
    **dict.fromkeys(
        (
            (name, "grouped")
            for name in ("SampledWithoutReplacement", "CyclicPoisson", "ProposeTestRelease", "MixtureOfGaussians", "Tuned")
        ),
        "its group has no proof",
    ),
    ("SparseVector", "grouped"): "its group has a bracket too wide to tell",
    ("Parallel", "grouped"): "members of a group may stand in different parts",
    ("Concentrated", "between"): "beside a pair it has no bracket",
}
"""Events without a case inside of others, and why."""


def test_every_event_has_cases_inside_of_others() -> None:
    stored = {case.id for case in suite.load_checked()}
    gaps = {(name, form) for name in KINDS for form in FORMS if f"wrapped-{name}-{form}" not in stored}
    assert gaps == set(UNPROVED)


def _without(kind: type[Event]) -> Callable[[Event], Event]:
    """Return an edit that forgets events of a class in compositions, and repetitions and groups of them."""

    def edit(node: Event) -> Event:
        match node:
            case Composed(parts=parts) if len(parts) > 1:
                return Composed(parts=tuple(part for part in parts if not _has(part, kind)))
            case Repeated(mechanism=inner) | Grouped(mechanism=inner) if _has(inner, kind):
                return inner
        return node

    return edit


def _has(event: Event, kind: type[Event]) -> bool:
    return any(type(node) is kind for node in nodes(event))


@pytest.mark.slow
@pytest.mark.parametrize("name", sample(((name,) for name in KINDS if name != "NonPrivate"), 3))
def test_an_event_that_costs_less_inside_of_others_is_found_in_each_of_them(name: str) -> None:
    accountant = Misreader(misread=_without(KINDS[name]))
    for case in suite.load_checked():
        if case.id.startswith(f"wrapped-{name}-"):
            assert suite.judge(accountant, case).finding is CaseFinding.WRONG, case.id


@pytest.mark.slow
def test_a_field_far_from_the_usual_that_is_taken_for_another_value_is_found() -> None:
    cases = [case for case in suite.load_checked() if case.id.startswith("cut-")]
    for case in cases:
        _, kind, name, _ = case.id.split("-")
        assert is_shown(case.asks[0], KINDS[kind], name, case.lower), case.id
    assert len(cases) >= 15


@pytest.mark.slow
def test_a_search_finds_an_event_that_is_dropped_beside_another() -> None:
    findings = fuzzing.search(Misreader(misread=_without(RandomAllocation)), seconds=120, seed=1, most=1).findings
    assert findings and findings[0].is_unsafe


def _set(kind: type[Event], **changes: Callable[[Any], Any]) -> Callable[[Event], Event]:
    """Return an edit of events that misreads fields of one class."""

    def edit(node: Event) -> Event:
        if not isinstance(node, kind):
            return node
        return dataclasses.replace(node, **{name: change(getattr(node, name)) for name, change in changes.items()})  # type: ignore[type-var]

    return edit


def _without_first(kind: type[Event]) -> Callable[[Event], Event]:
    def edit(node: Event) -> Event:
        if not isinstance(node, Composed):
            return node
        return Composed(parts=tuple(part for part in node.parts if not isinstance(part, kind)) or node.parts)

    return edit


def _tree_out_of_group(node: Event) -> Event:
    return node.mechanism if isinstance(node, Grouped) and isinstance(node.mechanism, TreeAggregation) else node


def _three_shifts(node: Event) -> Event:
    if not isinstance(node, MixtureOfGaussians) or len(node.shifts) < 4:
        return node
    chances = (*node.probabilities[:2], 1 - math.fsum(node.probabilities[:2]))
    return dataclasses.replace(node, shifts=node.shifts[:3], probabilities=chances)


def _half_laplace(node: Event) -> Event:
    is_it = isinstance(node, PoissonSampled) and isinstance(node.mechanism, Laplace) and node.sample_rate > 0.5
    return dataclasses.replace(node, sample_rate=0.5) if is_it else node  # type: ignore[type-var]


MISREADINGS: dict[str, Callable[[Event], Event]] = {
    "groups of at most 10": _set(Grouped, size=lambda size: min(size, 10)),
    "three participations": _set(MatrixFactorization, participations=lambda count: min(count, 3)),
    "a tree of 1,000 steps": _set(TreeAggregation, steps=lambda steps: min(steps, 1000)),
    "cyclic rates up to 0.3": _set(CyclicPoisson, sample_rate=lambda rate: min(rate, 0.3)),
    "a tree without its group": _tree_out_of_group,
    "three shifts": _three_shifts,
    "a hundred buckets": _set(RandomizedResponse, buckets=lambda count: min(count, 100)),
    "a selection dropped": _without_first(NoisyMax),
    "discrete noise above 8": _set(DiscreteGaussian, noise_multiplier=lambda noise: noise * 1.1 if noise > 8 else noise),
    "Skellam noise below 1.5": _set(Skellam, noise_multiplier=lambda noise: max(noise, 1.5)),
    "a free count": _set(AdaptiveClipping, count_noise=lambda noise: noise * 1e6 if noise > 2 else noise),
    "Laplace sampled at a half": _half_laplace,
    "records of a shuffle doubled": _set(Shuffled, records=lambda count: 2 * count if count > 1000 else count),
    "few trials of a tuning": _set(Tuned, mean=lambda mean: min(mean, 10.0)),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Misreader:
    """Our reference, which reads some events wrongly."""

    misread: Callable[[Event], Event]

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        return Reference(tolerance=1e-3).claim(rebuilt(mechanism, self.misread), delta=delta, adjacency=adjacency)


@pytest.mark.slow
@pytest.mark.parametrize("name", sample(((name,) for name in MISREADINGS), 3))
def test_a_cut_of_a_field_is_found_by_cases_or_by_search(name: str) -> None:
    accountant = Misreader(misread=MISREADINGS[name])
    touched = [
        case
        for case in suite.load_checked()
        if case.kind == "bracket" and any(rebuilt(ask.event, MISREADINGS[name]) != ask.event for ask in case.asks)
    ]
    wrong = [case.id for case in touched if suite.judge(accountant, case).finding is CaseFinding.WRONG]
    assert wrong or fuzzing.search(accountant, seconds=120, seed=1, most=1).findings


def test_nothing_claimed_for_much_noise_is_found() -> None:
    free = FunctionAccountant(function=lambda n, q, t, d: 0.0 if n > 100 else exact(n, q, t, d))
    wide = [
        case
        for case in suite.load_checked()
        if case.kind == "bracket" and any(getattr(node, "noise_multiplier", 0) > 100 for node in nodes(case.asks[0].event))
    ]
    assert any(suite.judge(free, case).finding is CaseFinding.WRONG for case in wide)
