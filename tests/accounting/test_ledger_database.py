"""A ledger's database loses nothing at a kill, lets no one wait for an accountant, and shows every edit."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit.accounting import ledger_database, ledger_entries, ledger_file
from audit.accounting.ledger import BudgetExceeded, Ledger
from audit.core.errors import ConfigError, DataError, OutputError
from tests.accounting.ledgers import accepted_at_once, answer, empty

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "budget.ledger"
    ledger_database.create(path, empty())
    return path


def tampered(path: Path, *statements: str) -> None:
    """Edits the database by hand, triggers included."""
    with closing(sqlite3.connect(path)) as database:
        triggers = [statement for statement in ledger_file._SCHEMA if "TRIGGER" in statement]
        for statement in ("DROP TRIGGER no_change", "DROP TRIGGER no_removal", *statements, *triggers):
            database.execute(statement)
        database.commit()


def test_what_is_recorded_is_read_back(file: Path) -> None:
    first = ledger_database.record(file, answer("a"))
    second = ledger_database.record(file, answer("b", 0.5))
    assert ledger_database.load(file) == second and second.releases[0] == first.releases[0]
    assert second.releases[1].spent == pytest.approx(0.51, rel=1e-6) and "composition" in second.releases[1].source
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name]


def test_a_refused_release_leaves_no_trace(tmp_path: Path) -> None:
    file = tmp_path / "small.ledger"
    ledger_database.create(file, empty(1.0))
    before = ledger_database.read(file).seal
    with pytest.raises(BudgetExceeded):
        ledger_database.record(file, answer("too much", 2.0))
    assert ledger_database.read(file).seal == before


def test_the_same_release_is_recorded_once_where_that_is_asked_for(file: Path) -> None:
    for _ in range(2):
        ledger_database.record(file, answer("audit"), unless_present=True)
    assert len(ledger_database.load(file).releases) == 1
    assert len(ledger_database.record(file, answer("audit")).releases) == 2


def test_nobody_waits_while_an_accountant_computes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that another command records in the meantime is counted, and its command went through at once."""
    total_claim = Ledger.total_claim

    def interrupted(*arguments: Any) -> Any:
        monkeypatch.setattr(Ledger, "total_claim", total_claim)
        ledger_database.record(file, answer("rival"))
        return total_claim(*arguments)

    monkeypatch.setattr(Ledger, "total_claim", interrupted)
    result = ledger_database.record(file, answer("mine"))
    assert [row.name for row in result.releases] == ["rival", "mine"]
    assert result.releases[1].spent == pytest.approx(0.02, rel=1e-6)
    assert ledger_database.load(file) == result


def test_eight_at_once_lose_nothing(file: Path) -> None:
    names = [f"release {place}" for place in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: ledger_database.record(file, answer(name)), names))
    retained = ledger_database.load(file)
    assert sorted(row.name for row in retained.releases) == sorted(names)
    spent = [row.spent or 0.0 for row in retained.releases]
    assert spent == pytest.approx([0.01 * (place + 1) for place in range(24)], rel=1e-6)


def test_a_budget_is_never_exceeded_by_two_who_both_fit_alone(tmp_path: Path) -> None:
    file = tmp_path / "tight.ledger"
    ledger_database.create(file, empty(1.0))
    assert accepted_at_once(file, 6) == 2
    assert len(ledger_database.load(file).releases) == 2


LOOP = """
import sys
from pathlib import Path
from audit.accounting import ledger_database
from audit.accounting.ledger import Release
from audit.core.events import ApproximateDp
for place in range(100_000):
    ledger_database.record(Path(sys.argv[1]), Release(name=str(place), event=ApproximateDp(epsilon=0.001)))
    print(place, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_what_was_acknowledged_survives_a_kill(file: Path, seed: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOOP, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline() for _ in range(5)]
        time.sleep(random.Random(seed).uniform(0.0, 0.05))
        writer.kill()
        acknowledged += writer.stdout.readlines()
    full = [line for line in acknowledged if line.endswith(b"\n")]
    retained = [row.name for row in ledger_database.load(file).releases]
    assert retained == [str(place) for place in range(len(retained))] and len(full) <= len(retained) <= len(full) + 1
    assert len(ledger_database.record(file, answer("after")).releases) == len(retained) + 1


def test_a_command_that_holds_the_ledger_too_long_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_file, "_PATIENCE", 0.1)
    with closing(sqlite3.connect(file, isolation_level=None)) as peer:
        peer.execute("BEGIN IMMEDIATE")
        assert ledger_database.load(file) == empty()  # who reads does not wait
        with pytest.raises(OutputError, match="another command writes"):
            ledger_database.record(file, answer("a"))
    assert len(ledger_database.record(file, answer("a")).releases) == 1


EDITS = {
    "a release": "UPDATE entries SET body = replace(body, '0.01', '0.001') WHERE position = 3",
    "the budget": "UPDATE entries SET body = replace(body, '1000', '5000') WHERE position = 1",
    "delta": "UPDATE entries SET body = replace(body, '1e-05', '0.01') WHERE position = 1",
    "adjacency": "UPDATE entries SET body = replace(body, 'add_remove', 'zero_out') WHERE position = 1",
    "accountant": "UPDATE entries SET body = replace(body, 'composition_theorems', 'renyi') WHERE position = 1",
    "a remark": "UPDATE entries SET body = replace(body, 'of ages', 'of names') WHERE position = 2",
    "its kind": "UPDATE entries SET kind = 'remark' WHERE position = 3",
    "the last removed": "DELETE FROM entries WHERE position = 4",
    "one removed": "DELETE FROM entries WHERE position = 2",
    "the first removed": "DELETE FROM entries WHERE position = 1",
    "all removed": "DELETE FROM entries",
    "one more": "INSERT INTO entries VALUES (5, 'budget', '{\"budget_epsilon\": 9.0}', 'abc')",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_is_noticed(file: Path, edit: str) -> None:
    for name in "abc":
        ledger_database.record(file, answer(name))
    tampered(file, EDITS[edit])
    with pytest.raises(DataError, match=r"changed or removed|seal does not fit"):
        ledger_database.load(file)


@pytest.mark.parametrize("statement", ["UPDATE entries SET kind = 'x'", "DELETE FROM entries"])
def test_the_database_itself_refuses_to_forget(file: Path, statement: str) -> None:
    ledger_database.record(file, answer("a"))
    with closing(sqlite3.connect(file)) as database, pytest.raises(sqlite3.IntegrityError, match="never"):
        database.execute(statement)


SWALLOWERS = {
    "a trigger on entries": "CREATE TRIGGER x BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END",
    "a trigger on the head": "CREATE TRIGGER x BEFORE UPDATE ON head BEGIN SELECT RAISE(IGNORE); END",
    "a trigger that removes": "CREATE TRIGGER x AFTER INSERT ON entries BEGIN UPDATE head SET position = 1; END",
    "an index": "CREATE UNIQUE INDEX x ON entries (kind)",
    "a view": "CREATE VIEW x AS SELECT * FROM entries",
    "a table": "CREATE TABLE x (y)",
    "no trigger": "DROP TRIGGER no_change",
    "a trigger in another form": "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = replace(sql, 'ABORT', 'IGNORE')",
}


@pytest.mark.parametrize("name", SWALLOWERS)
def test_a_database_with_anything_but_a_ledger_in_it_is_refused(file: Path, name: str) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.executescript(SWALLOWERS[name])
    with pytest.raises(DataError, match=r"not those of a ledger|no ledger of version|cannot read the ledger"):
        ledger_database.record(file, answer(1.0))
    with pytest.raises(DataError, match=r"not those of a ledger|no ledger of version|cannot read the ledger"):
        ledger_database.load(file)


def test_a_record_that_is_not_there_when_it_is_read_again_is_an_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_file.FileStore, "append", lambda self, seal, entry: True)
    with pytest.raises(OutputError, match="not recorded"):
        ledger_database.record(file, answer(1.0))


def test_a_reader_without_the_right_to_write_sees_what_a_killed_writer_committed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = sqlite3.connect(file)  # keeps the log from being moved into the file, as a kill after COMMIT does
    holder.execute("SELECT * FROM entries").fetchall()
    ledger_database.record(file, answer(1.0))
    assert file.with_name(f"{file.name}-wal").stat().st_size > 0
    expected = ledger_database.read(file)
    monkeypatch.setattr(ledger_file, "_is_writable", lambda path: False)
    names = sorted(path.name for path in file.parent.iterdir())
    assert ledger_database.read(file) == expected
    assert len(expected.ledger.releases) == 1
    assert sorted(path.name for path in file.parent.iterdir()) == names
    holder.close()


def test_a_disk_that_fails_is_an_outage_and_not_a_wrong_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(ledger_file, "_rows", fail)
    with pytest.raises(OutputError, match="disk I/O error") as caught:
        ledger_database.load(file)
    assert caught.value.exit_code == 4


def test_a_seal_noted_earlier_shows_a_history_written_anew(file: Path, tmp_path: Path) -> None:
    ledger_database.record(file, answer("a"))
    noted = ledger_database.read(file).seal
    ledger_database.record(file, answer("b"))
    assert noted in ledger_database.read(file).hashes
    forged = tmp_path / "forged.ledger"
    retained = ledger_database.load(file)
    ledger_database.create(forged, replace(retained, releases=retained.releases[1:]))
    assert noted not in ledger_database.read(forged).hashes


def test_a_budget_is_changed_on_purpose_and_stays_on_record(file: Path) -> None:
    ledger_database.record(file, answer("a", 2.0))
    assert ledger_database.change_budget(file, 3.0, moment="2026-02-01", note="the board").budget_epsilon == 3.0
    assert ledger_database.load(file).budget_epsilon == 3.0 and len(ledger_database.read(file).hashes) == 3
    with pytest.raises(BudgetExceeded):
        ledger_database.record(file, answer("b", 2.0))
    for budget, note in ((1.0, "too little"), (5.0, " "), (-1.0, "nonsense"), (float("nan"), "nonsense")):
        with pytest.raises(ConfigError):
            ledger_database.change_budget(file, budget, moment="", note=note)
    assert ledger_database.load(file).budget_epsilon == 3.0


def test_a_ledger_is_never_overwritten(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="exists already"):
        ledger_database.create(file, empty())
    assert file.read_bytes() == before
    with pytest.raises(OutputError, match="cannot write"):
        ledger_database.create(file.parent / "no" / "folder", empty())


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot read"), (b"", "not a ledger"), (b"PK", "not a ledger"), (b'{"version": 2}', "audit ledger import")],
)
def test_a_file_that_is_no_ledger(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "book"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DataError, match=message):
        ledger_database.load(file)


def test_what_never_ends_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(DataError, match="not a regular file"):
            ledger_database.load(path)


def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE entries (a)")
    with pytest.raises(DataError, match="no ledger of version"):
        ledger_database.load(file)


def test_a_damaged_file_is_an_error_with_its_name(file: Path) -> None:
    for name in "abcdefgh":
        ledger_database.record(file, answer(name))
    content = bytearray(file.read_bytes())
    for place in range(4096, len(content), 7):
        content[place] ^= 0xFF
    file.write_bytes(bytes(content))
    with pytest.raises(DataError, match=file.name):
        ledger_database.load(file)


def test_two_thousand_releases_load_quickly(tmp_path: Path) -> None:
    file = tmp_path / "long.ledger"
    releases = tuple(replace(answer(f"release {place}"), spent=0.01 * place, source="s") for place in range(2000))
    ledger_database.create(file, replace(empty(), releases=releases))
    started = time.process_time()
    assert ledger_database.load(file).releases == releases
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM head", "UPDATE entries SET body = x'ff00'", "UPDATE entries SET kind = x'ff'", "UPDATE head SET hash = 7"],
)
def test_values_of_other_types_and_a_missing_head_are_refused(file: Path, statement: str) -> None:
    tampered(file, statement)
    with pytest.raises(DataError, match=r"budget\.ledger"):
        ledger_database.read(file)


@pytest.mark.parametrize("body", ["{", "[" * 100_000, '{"x": ' + "9" * 5000 + "}"], ids=["cut", "deep", "long number"])
def test_an_entry_whose_body_cannot_be_parsed_is_refused_though_its_hash_fits(file: Path, body: str) -> None:
    seal = ledger_database.read(file).seal
    digest = ledger_entries.chain_hash(seal, 2, "release", body)
    with closing(sqlite3.connect(file)) as database:
        database.execute("INSERT INTO entries VALUES (2, 'release', ?, ?)", (body, digest))
        database.execute("UPDATE head SET position = 2, hash = ?", (digest,))
        database.commit()
    with pytest.raises(DataError, match="cannot be read"):
        ledger_database.read(file)
