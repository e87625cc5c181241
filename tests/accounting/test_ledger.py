"""A ledger adds up by composition, refuses what exceeds the budget, and notices edits."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from audit import plugins
from audit.accounting import ledger
from audit.accounting.ledger import BudgetExceeded, Ledger, Release, accuracy_release
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.events import Repeated, dp_sgd

ORACLE = plugins.build("audit.accounting.accountants", {"kind": "reference"})


def training(steps: int) -> Repeated:
    return dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=steps)


def book(budget: float = 3.0) -> Ledger:
    return Ledger(budget_epsilon=budget, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)


def test_two_halves_cost_what_the_whole_costs() -> None:
    halves = (
        book().record(ORACLE, Release(name="a", event=training(400))).record(ORACLE, Release(name="b", event=training(600)))
    )
    whole = book().record(ORACLE, Release(name="all", event=training(1000)))
    assert halves.total_claim(ORACLE).epsilon == pytest.approx(whole.total_claim(ORACLE).epsilon, rel=1e-3)
    assert whole.total_claim(ORACLE).epsilon == pytest.approx(1.8283, rel=1e-4)
    assert halves.remaining(ORACLE) == pytest.approx(3 - 1.8283, abs=1e-3)
    assert book().remaining(ORACLE) == 3.0


def test_what_exceeds_the_budget_is_refused_and_not_recorded() -> None:
    kept = book(2.0).record(ORACLE, Release(name="training", event=training(1000)))
    with pytest.raises(BudgetExceeded, match=r"'search' would bring the total to epsilon .* the budget is 2"):
        kept.record(ORACLE, Release(name="search", event=Repeated(mechanism=training(1000), count=5)))
    assert [one.name for one in kept.releases] == ["training"]
    assert not kept.affords(ORACLE, training(1000)) and kept.affords(ORACLE, training(10))


def test_released_accuracies_cost_times_over_records_and_scale() -> None:
    """T releases of a mean over n records with Laplace scale b cost at most T / (n b)."""
    release = accuracy_release("validation", records=1000, scale=0.05, times=50)
    kept = book().record(ORACLE, release)
    assert 0 < kept.total_claim(ORACLE).epsilon <= 50 / (1000 * 0.05)
    single = book().record(ORACLE, accuracy_release("validation", records=1000, scale=0.05)).total_claim(ORACLE).epsilon
    assert single == pytest.approx(1 / 50, rel=2e-3)
    assert accuracy_release("once", records=100, scale=0.1).event.noise_multiplier == pytest.approx(10)  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="records"):
        accuracy_release("none", records=0, scale=0.1)


def test_how_often_a_release_still_fits() -> None:
    kept = book(2.0).record(ORACLE, Release(name="training", event=training(500)))
    count = kept.most_repeats(ORACLE, training(100))
    assert kept.affords(ORACLE, Repeated(mechanism=training(100), count=count))
    assert not kept.affords(ORACLE, Repeated(mechanism=training(100), count=count + 1))
    assert 5 <= count <= 8


def test_the_trajectory_rises_to_what_is_spent() -> None:
    kept = book()
    for name, steps in (("a", 100), ("b", 300), ("c", 200)):
        kept = kept.record(ORACLE, Release(name=name, event=training(steps)))
    found = kept.trajectory(ORACLE)
    assert found.steps == (1, 2, 3) and list(found.epsilon) == sorted(found.epsilon)
    assert found.epsilon[-1] == pytest.approx(kept.total_claim(ORACLE).epsilon)
    assert "3 release(s) cost epsilon 1." in ledger.report_line(kept, ORACLE)


def test_saved_and_read_back(tmp_path: Path) -> None:
    kept = book().record(ORACLE, Release(name="a", event=training(100), when="2026-01-01", note="first"))
    kept = kept.record(ORACLE, accuracy_release("metric", records=1000, scale=0.5, times=3))
    ledger.save(kept, tmp_path / "book.json")
    assert ledger.load(tmp_path / "book.json") == kept


def test_an_edited_release_is_noticed(tmp_path: Path) -> None:
    kept = book().record(ORACLE, Release(name="a", event=training(100)))
    file = tmp_path / "book.json"
    ledger.save(kept, file)
    stored = json.loads(file.read_text())
    stored["releases"][0]["event"]["steps"] = 1
    file.write_text(json.dumps(stored))
    with pytest.raises(DataError, match=r"release 1 \('a'\), one before it or a setting was changed"):
        ledger.load(file)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 9}', '{"version": 1}', None])
def test_a_file_that_is_no_ledger(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "book.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(DataError):
        ledger.load(file)


def test_a_ledger_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        ledger.save(book(), tmp_path / "no" / "folder.json")


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_a_budget_that_means_nothing(bad: float) -> None:
    with pytest.raises(ConfigError, match="budget_epsilon"):
        book(bad)
