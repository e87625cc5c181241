"""A ledger adds up by composition and refuses what exceeds the budget."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from audit import plugins
from audit.accounting import ledger
from audit.accounting.ledger import BudgetExceeded, Ledger, Release, accuracy_release
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.core.events import Composed, Repeated, dp_sgd

ORACLE = plugins.build("audit.accounting.accountants", {"kind": "reference"})


def training(steps: int) -> Repeated:
    return dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=steps)


def book(budget: float = 3.0) -> Ledger:
    return Ledger(budget_epsilon=budget, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)


@pytest.mark.slow
def test_two_halves_cost_what_the_whole_costs() -> None:
    halves = (
        book().record(ORACLE, Release(name="a", event=training(400))).record(ORACLE, Release(name="b", event=training(600)))
    )
    full = book().record(ORACLE, Release(name="all", event=training(1000)))
    assert halves.total_claim(ORACLE).epsilon == pytest.approx(full.total_claim(ORACLE).epsilon, rel=1e-3)
    assert full.total_claim(ORACLE).epsilon == pytest.approx(1.8283, rel=1e-4)
    assert halves.remaining(ORACLE) == pytest.approx(3 - 1.8283, abs=1e-3)
    assert book().remaining(ORACLE) == 3.0


@pytest.mark.slow
def test_what_exceeds_the_budget_is_refused_and_not_recorded() -> None:
    retained = book(2.0).record(ORACLE, Release(name="training", event=training(1000)))
    with pytest.raises(BudgetExceeded, match=r"'search' would bring the total to epsilon .* the budget is 2"):
        retained.record(ORACLE, Release(name="search", event=Repeated(mechanism=training(1000), count=5)))
    assert [item.name for item in retained.releases] == ["training"]
    assert not retained.affords(ORACLE, training(1000)) and retained.affords(ORACLE, training(10))


@pytest.mark.slow
def test_released_accuracies_cost_times_over_records_and_scale() -> None:
    """T releases of a mean over n records with Laplace scale b cost at most T / (n b)."""
    release = accuracy_release("validation", records=1000, scale=0.05, times=50)
    retained = book().record(ORACLE, release)
    assert 0 < retained.total_claim(ORACLE).epsilon <= 50 / (1000 * 0.05)
    single = book().record(ORACLE, accuracy_release("validation", records=1000, scale=0.05)).total_claim(ORACLE).epsilon
    assert single == pytest.approx(1 / 50, rel=2e-3)
    assert accuracy_release("once", records=100, scale=0.1).event.noise_multiplier == pytest.approx(10)  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="records"):
        accuracy_release("none", records=0, scale=0.1)


@pytest.mark.slow
def test_how_often_a_release_still_fits() -> None:
    retained = book(2.0).record(ORACLE, Release(name="training", event=training(500)))
    count = retained.most_repeats(ORACLE, training(100))
    assert retained.affords(ORACLE, Repeated(mechanism=training(100), count=count))
    assert not retained.affords(ORACLE, Repeated(mechanism=training(100), count=count + 1))
    assert 5 <= count <= 8


@pytest.mark.slow
def test_the_trajectory_rises_to_what_is_spent() -> None:
    retained = book()
    for name, steps in (("a", 100), ("b", 300), ("c", 200)):
        retained = retained.record(ORACLE, Release(name=name, event=training(steps)))
    result = retained.trajectory(ORACLE)
    assert result.steps == (1, 2, 3) and list(result.epsilon) == sorted(result.epsilon)
    assert result.epsilon[-1] == pytest.approx(retained.total_claim(ORACLE).epsilon)


@pytest.mark.slow
def test_equal_releases_are_counted_and_cost_what_they_cost_one_by_one() -> None:
    events = [training(50), accuracy_release("m", records=100, scale=0.5).event, training(50), training(50)]
    together = ledger.together(events)
    assert len(together.parts) == 2  # type: ignore[attr-defined]
    apart = ORACLE.claim(Composed(parts=tuple(events)), delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    assert ORACLE.claim(together, delta=1e-5, adjacency=Adjacency.ADD_REMOVE).epsilon == pytest.approx(apart.epsilon, rel=1e-4)


@pytest.mark.slow
def test_what_was_spent_is_kept_with_each_release() -> None:
    retained = (
        book().record(ORACLE, Release(name="a", event=training(100))).record(ORACLE, Release(name="b", event=training(200)))
    )
    shown = ledger.summary(retained)
    assert [row.epsilon for row in shown.releases] == [row.spent for row in retained.releases]
    forgotten = replace(retained, releases=tuple(replace(row, spent=None) for row in retained.releases))
    again = [row.epsilon for row in ledger.summary(forgotten).releases]
    assert again == pytest.approx([row.epsilon for row in shown.releases], rel=1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_a_budget_that_means_nothing(bad: float) -> None:
    with pytest.raises(ConfigError, match="budget_epsilon"):
        book(bad)
