"""`audit ledger` keeps a budget: refusals with exit code 1, nothing half written, and the budget in the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import reports
from audit.accounting import ledger_database
from audit.accounting.accountants.reference import Reference
from audit.accounting.ledger import BudgetExceeded
from audit.cli import report_files
from audit.cli.app import answer
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import Composed, Gaussian, dp_sgd
from audit.experiment.line.ledger_entry import LedgerEntry
from reports.formats import json as report_json
from reports.pages import document
from reports.pages.blocks import Table
from tests.reports import sample

TRAINING = ("--noise", "1", "--rate", "0.01", "--steps")


@pytest.fixture
def book(tmp_path: Path) -> Path:
    file = tmp_path / "book.ledger"
    assert answer(["ledger", "create", str(file), "--budget", "2", "-a", "rdp"]) == 0
    return file


def show(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    answer(["ledger", "show", str(file), "--json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.slow
def test_releases_of_every_kind_compose(book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["ledger", "record", str(book), "training", *TRAINING, "200", "--when", "2026-01-05"]) == 0
    event = tmp_path / "event.json"
    event.write_text('{"kind": "Gaussian", "noise_multiplier": 20.0}')
    assert answer(["ledger", "record", str(book), "histogram", "--event", str(event), "--note", "of ages"]) == 0
    assert answer(["ledger", "record", str(book), "search", *TRAINING, "50", "--times", "3"]) == 0
    result = show(book, capsys)
    spent = [row["spent_after"] for row in result["releases"]]
    assert spent == sorted(spent) and 0 < spent[0] < spent[2] < 2
    assert result["spent"] == spent[-1] and result["remaining"] == pytest.approx(2 - spent[-1])
    assert result["releases"][2]["mechanism"] == "3 times DP-SGD (noise 1, rate 0.01, 50 steps)"
    assert result["releases"][0]["when"] == "2026-01-05" and result["releases"][1]["note"] == "of ages"


def test_a_metric_needs_an_accountant_that_knows_laplace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "book.ledger"
    answer(["ledger", "create", str(file), "--budget", "2"])
    assert answer(["ledger", "record", str(file), "accuracy", "--records", "1000", "--scale", "0.05", "--times", "20"]) == 0
    assert show(file, capsys)["spent"] == pytest.approx(20 * 1 / 50, rel=0.9)


def test_what_exceeds_the_budget_is_refused_and_not_recorded(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(["ledger", "record", str(book), "training", *TRAINING, "200"])
    before = book.read_bytes()
    assert answer(["ledger", "record", str(book), "too much", *TRAINING, "5000"]) == 1
    assert book.read_bytes() == before and [item.name for item in book.parent.iterdir()] == [book.name]
    message = capsys.readouterr().err
    assert "'too much' would bring the total to epsilon" in message and "the budget is 2" in message


@pytest.mark.slow
def test_a_plan_says_whether_and_how_often_it_fits(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(["ledger", "record", str(book), "training", *TRAINING, "200"])
    capsys.readouterr()
    assert answer(["ledger", "plan", str(book), *TRAINING, "100", "--json"]) == 0
    fits = json.loads(capsys.readouterr().out)
    assert fits["fits"] and fits["spent"] < fits["with_it"] <= 2 and fits["times_that_fit"] >= 1
    assert answer(["ledger", "plan", str(book), *TRAINING, "100", "--times", str(fits["times_that_fit"] + 1)]) == 1
    assert "does NOT fit" in capsys.readouterr().out
    assert len(show(book, capsys)["releases"]) == 1


@pytest.mark.slow
def test_releases_about_different_units_are_not_added_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = tmp_path / "units.ledger"
    answer(["ledger", "create", str(book), "--budget", "2"])
    by_user = "dp_sgd(2.0, 0.01, 100, unit='user')"
    grouped = "Grouped(dp_sgd(8.0, 0.01, 100, unit='user'), size=3)"
    assert answer(["ledger", "record", str(book), "users", "--event", by_user]) == 0
    before = book.read_bytes()
    for command in (["record", str(book), "examples"], ["plan", str(book)]):
        capsys.readouterr()
        assert answer(["ledger", *command, *TRAINING, "100"]) == 2
        message = capsys.readouterr().err
        assert "the next release is about one example, 'users' about one user" in message and "size=k" in message
    assert book.read_bytes() == before
    assert answer(["ledger", "record", str(book), "states", "--event", grouped]) == 0  # the conversion that is named is valid
    assert len(show(book, capsys)["releases"]) == 2
    user = dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=0.1, steps=5, unit="user")
    mixed = Composed(parts=(user, Gaussian(noise_multiplier=9.0)))
    with pytest.raises(UnsupportedMechanism, match="releases about one example and one user"):
        Reference().claim(mixed, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)


@pytest.mark.slow
def test_the_same_release_asks_before_it_spends_twice(
    book: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["ledger", "record", str(book), "training", *TRAINING, "20"]
    assert answer(command) == 0
    before = book.read_bytes()
    for retried in (command, [*command, "--json"]):
        assert answer(retried) == 2 and "--again, or another name" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    for consent in (False, True):
        assert book.read_bytes() == before
        monkeypatch.setattr("typer.confirm", lambda question, agrees=consent: agrees)
        assert answer(command) == (0 if consent else 2)
    assert answer([*command, "--again"]) == 0 and answer([*command, "--note", "another"]) == 0
    assert len(show(book, capsys)["releases"]) == 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "arguments",
    [
        ("--noise", "1"),
        (),
        (*TRAINING, "10", "--records", "5", "--scale", "1"),
        (*TRAINING, "10", "--times", "0"),
        (*TRAINING, "10", "--when", "yesterday"),
        ("--event", "no-such-file.json"),
    ],
)
def test_a_release_is_described_once_and_whole(book: Path, arguments: tuple[str, ...]) -> None:
    before = book.read_bytes()
    assert answer(["ledger", "record", str(book), "x", *arguments]) == 2
    assert book.read_bytes() == before


def test_a_ledger_is_never_overwritten_and_needs_an_upper_bound(book: Path, tmp_path: Path) -> None:
    assert answer(["ledger", "create", str(book), "--budget", "9"]) == 2
    assert answer(["ledger", "create", str(tmp_path / "new.ledger"), "--budget", "9", "-a", "gaussian_clt"]) == 2
    assert answer(["ledger", "create", str(tmp_path / "new.ledger"), "--budget", "9", "--adjacency", "sideways"]) == 2
    assert not (tmp_path / "new.ledger").exists()


@pytest.mark.slow
def test_a_budget_is_changed_with_a_reason(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["ledger", "budget", str(book), "4", "--note", "agreed by the board", "--when", "2026-02-01"]) == 0
    assert "of 4 at delta" in capsys.readouterr().out
    assert answer(["ledger", "record", str(book), "training", *TRAINING, "2000"]) == 0
    assert answer(["ledger", "budget", str(book), "0.5", "--note", "regret"]) == 2
    assert "spent already" in capsys.readouterr().err
    assert answer(["ledger", "budget", str(book), "9"]) == 2


@pytest.mark.slow
def test_a_seal_is_printed_and_looked_for(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(["ledger", "record", str(book), "training", *TRAINING, "20"])
    capsys.readouterr()
    assert answer(["ledger", "verify", str(book), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["entries"] == 2
    answer(["ledger", "record", str(book), "training", *TRAINING, "30"])
    assert answer(["ledger", "verify", str(book), "--seal", result["seal"]]) == 0
    assert answer(["ledger", "verify", str(book), "--seal", "0" * 64]) == 1
    assert "not part of the history" in capsys.readouterr().out


def test_an_old_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.json").write_text(json.dumps({"version": 1, "budget_epsilon": 2.0, "releases": []}))
    assert answer(["ledger", "show", str(tmp_path / "old.json")]) == 2
    assert "`audit ledger import` of version 0.1.0 reads it" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_the_trajectory_is_drawn(book: Path, tmp_path: Path) -> None:
    answer(["ledger", "record", str(book), "training", *TRAINING, "200"])
    for name, start in (("spent.svg", b"<?xml"), ("spent.png", b"\x89PNG")):
        assert answer(["ledger", "show", str(book), "--plot", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_bytes().startswith(start)


def experiment() -> Any:
    """What `LedgerEntry` reads of an experiment."""
    mechanism = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=300)
    return SimpleNamespace(training_designs=(SimpleNamespace(name="dp-sgd", mechanism=mechanism),))


def test_an_audit_records_only_what_it_was_told_to(book: Path) -> None:
    shown = LedgerEntry(file=book, training=None)
    shown.check(experiment())
    assert shown.settled(sample.run(), experiment()).ledger is not None
    assert ledger_database.load(book).releases == ()
    reported = LedgerEntry(file=book, training="dp-sgd")
    reported.check(experiment())
    assert ledger_database.load(book).releases == ()  # nothing before the audit is over
    settled = reported.settled(sample.run(), experiment())
    assert settled.ledger is not None and [item.name for item in settled.ledger.releases] == ["dp-sgd"]
    reported.settled(sample.run(), experiment())  # resumed after the ledger was written: not charged twice
    (release,) = ledger_database.load(book).releases
    assert sample.run().id in release.note and release.when == sample.run().created


def test_an_audit_that_would_not_fit_is_refused_before_it_trains(book: Path) -> None:
    steep = experiment()
    steep.training_designs[0].mechanism = replace(steep.training_designs[0].mechanism, count=100_000)
    with pytest.raises(BudgetExceeded):
        LedgerEntry(file=book, training="dp-sgd").check(steep)
    with pytest.raises(ConfigError, match="trainings of this audit are dp-sgd"):
        LedgerEntry(file=book, training="other").check(experiment())
    with pytest.raises(ConfigError, match="no --ledger"):
        LedgerEntry(file=None, training="dp-sgd").check(experiment())
    assert LedgerEntry(file=None, training=None).settled(sample.run(), experiment()).ledger is None


@pytest.mark.slow
def test_the_budget_has_its_section_and_survives_the_file(book: Path, tmp_path: Path) -> None:
    answer(["ledger", "record", str(book), "first training", *TRAINING, "200", "--note", "for the board"])
    result = LedgerEntry(file=book, training=None).settled(sample.scores(), experiment())
    assert report_json.from_json(report_json.to_json(result)) == result
    (section,) = (item for item in document.sections(result) if item.title == "Budget of these data")
    (table,) = (item for item in section.blocks if isinstance(item, Table))
    assert "first training" in str(table.rows) and "for the board" in str(table.rows)
    assert "figures/ledger.svg" in reports.render(result, ("figures",))
    assert not any(item.title == "Budget of these data" for item in document.sections(sample.scores()))
    from reports.editions.external import external

    assert external(result).ledger is None


def test_a_finished_report_is_rendered_again_with_a_ledger_elsewhere_only(book: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(report_json.to_json(sample.run()))
    assert answer(["report", str(file), "--ledger", str(book), "--format", "json"]) == 2
    assert answer(["report", str(file), "--ledger", str(book), "--format", "json", "-o", str(tmp_path / "copy")]) == 0
    assert report_files.load(tmp_path / "copy" / "report.json").ledger is not None
    assert report_files.load(file).ledger is None
