"""Several claims on one data set and budgets of groups of persons: what counts where, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit.accounting import ledger_database
from audit.accounting.event_expressions import parse
from audit.accounting.ledger import BudgetExceeded, Ledger, Limit, Release
from audit.cli.app import answer
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, DataError
from audit.core.events import ApproximateDp, Gaussian, sgd
from reports.formats import json as report_json
from tests.accounting.ledgers import empty
from tests.reports import sample

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def cheap(name: str, budget: float, group: str = "", **more: Any) -> Limit:
    settings = {"delta": 1e-5, "adjacency": ADD, "accountant": "composition_theorems", **more}
    return Limit(name=name, budget_epsilon=budget, group=group, **settings)


def pure(name: str, epsilon: float, *groups: str) -> Release:
    return Release(name=name, event=ApproximateDp(epsilon=epsilon), groups=groups)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    file = tmp_path / "groups.ledger"
    ledger_database.create(file, empty(10.0))
    for limit in (cheap("the young", 1.0, "young"), cheap("the old", 2.0, "old")):
        ledger_database.set_limit(file, limit, moment="2026-01-01", note="agreed")
    return file


def spent(file: Path) -> dict[str, float]:
    book = ledger_database.load(file)
    return {limit.name: book.total_spent(limit) for limit in book.limits}


def test_each_group_counts_what_used_it_and_what_used_everybody(place: Path) -> None:
    for release in (pure("a", 0.5, "young"), pure("b", 0.25), pure("c", 1.0, "old"), pure("d", 0.125, "young", "old")):
        ledger_database.record(place, release)
    assert spent(place) == pytest.approx({"the young": 0.875, "the old": 1.375})
    book = ledger_database.load(place)
    assert book.releases[-1].groups == ("young", "old") and book.releases[-1].spent == pytest.approx(1.875)


def test_a_release_that_exceeds_the_budget_of_a_group_is_refused_whole(place: Path) -> None:
    ledger_database.record(place, pure("a", 0.9, "young"))
    before = place.read_bytes()
    for release in (pure("b", 0.2, "young"), pure("c", 0.2), pure("d", 0.2, "old", "young")):
        with pytest.raises(BudgetExceeded, match=r"the limit .the young. to epsilon 1\.1"):
            ledger_database.record(place, release)
    assert place.read_bytes() == before
    assert len(ledger_database.record(place, pure("e", 0.2, "old")).releases) == 2


def test_a_group_that_no_limit_is_about_is_a_mistake(place: Path) -> None:
    with pytest.raises(ConfigError, match="no limit is about the group 'yuong'; the ledger's groups: old, young"):
        ledger_database.record(place, pure("a", 0.1, "yuong"))


def test_several_claims_hold_at_once(tmp_path: Path) -> None:
    """The same data under another adjacency and delta: replacing a record costs twice the noise less."""
    file = tmp_path / "claims.ledger"
    ledger_database.create(file, Ledger(budget_epsilon=5.0, delta=1e-5, adjacency=ADD))
    peer = Limit(name="board", budget_epsilon=4.0, delta=1e-6, adjacency=REPLACE)
    ledger_database.set_limit(file, peer, moment="", note="agreed")
    release = Release(name="mean", event=Gaussian(noise_multiplier=4.0))
    book = ledger_database.record(file, release)
    assert book.releases[0].spent == pytest.approx(1.0, rel=0.2) and book.total_spent(peer) == pytest.approx(2.4, rel=0.1)
    with pytest.raises(BudgetExceeded, match=r"the limit .board.*replace_one"):
        for _ in range(4):
            ledger_database.record(file, release)
    assert len(ledger_database.load(file).releases) == 2


def test_a_limit_changes_with_a_reason_and_not_below_what_is_spent(place: Path) -> None:
    ledger_database.record(place, pure("a", 0.9, "young"))
    with pytest.raises(ConfigError, match=r"below what .the young. counts already, 0\.9"):
        ledger_database.set_limit(place, cheap("the young", 0.5, "young"), moment="", note="regret")
    with pytest.raises(ConfigError, match="with a reason"):
        ledger_database.set_limit(place, cheap("the young", 5.0, "young"), moment="", note=" ")
    with pytest.raises(ConfigError, match="needs an upper bound"):
        ledger_database.set_limit(place, cheap("x", 5.0, accountant="gaussian_clt"), moment="", note="n")
    assert len(ledger_database.set_limit(place, cheap("the young", 3.0, "young"), moment="", note="agreed").limits) == 2
    ledger_database.record(place, pure("b", 1.0, "young"))
    assert spent(place)["the young"] == pytest.approx(1.9)


def test_a_limit_that_somebody_raised_by_hand_is_noticed(place: Path) -> None:
    import sqlite3

    with sqlite3.connect(place) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("UPDATE entries SET body = replace(body, '\"budget_epsilon\": 1.0', '\"budget_epsilon\": 9.0')")
    with pytest.raises(DataError, match=r"changed by another program|changed or removed"):
        ledger_database.load(place)


@pytest.mark.slow
def test_the_command_keeps_limits_and_imports_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, history = str(tmp_path / "people.ledger"), tmp_path / "history.json"
    history.write_text("[[1.0, 0.01, 200]]")
    report = tmp_path / "report.json"
    done = sample.run()
    trainings = {"plain": sgd(sample_rate=0.1, steps=5), "dp": parse("dp_sgd(2.0, 0.01, 90)")}
    rows = tuple(replace(done.mechanisms[-1], name=name, mechanism=event) for name, event in trainings.items())
    report.write_bytes(report_json.to_json(replace(done, mechanisms=rows)))
    assert answer(["ledger", "create", file, "--budget", "9", "-a", "rdp"]) == 0
    assert answer(["ledger", "limit", file, "north", "--budget", "3", "-a", "rdp", "--group", "north", "--note", "board"]) == 0
    assert answer(["ledger", "record", file, "first", "--event", str(history), "--group", "north"]) == 0
    assert answer(["ledger", "record", file, "second", "--event", str(report)]) == 0
    assert answer(["ledger", "record", file, "third", "--event", "3 * Gaussian(20.0)"]) == 0
    assert answer(["ledger", "record", file, "fourth", "--event", str(report), "--mechanism", "nobody"]) == 2
    assert "has no training 'nobody'" in capsys.readouterr().err
    assert answer(["ledger", "plan", file, "--event", "Gaussian(1.0)", "--group", "north", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["times_that_fit"] == 0
    assert answer(["ledger", "show", file, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["mechanism"] for row in shown["releases"]][1] == "DP-SGD (noise 2, rate 0.01, 90 steps)"
    assert shown["limits"][0]["group"] == "north" and shown["limits"][0]["spent"] == pytest.approx(shown["spent"])
    assert answer(["ledger", "show", file]) == 0 and "limit 'north' of the group 'north'" in capsys.readouterr().out


def test_two_thousand_releases_load_at_once(tmp_path: Path) -> None:
    """Loading checks every hash and asks no accountant; CPU time, so that other work does not count."""
    import time

    file = tmp_path / "many.ledger"
    release = Release(name="r", event=Gaussian(noise_multiplier=50.0), spent=1.0, source="s")
    book = Ledger(budget_epsilon=9.0, delta=1e-5, adjacency=ADD, releases=(release,) * 2000)
    ledger_database.create(file, book)
    start = time.process_time()
    assert len(ledger_database.load(file).releases) == 2000
    assert time.process_time() - start < 1.0
