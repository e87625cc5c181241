"""A ledger on a PostgreSQL server keeps what one in a file does: the chain, the seal, and what two commands write at once.

The server is one of the distribution's packages, started for these tests on its own socket.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from audit.accounting import ledger_database
from audit.accounting.ledger import BudgetExceeded, Release
from audit.accounting.ledger_limits import Limit
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.events import ApproximateDp
from tests.accounting.ledgers import accepted_at_once, answer, empty


def programs() -> Path:
    """The folder of the server's programs; the reason to skip if there is none."""
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed: pip install 'epsilon-audit[postgres]'")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'epsilon-audit[postgres]'")
    folders = [path.resolve().parent for name in ("initdb",) if (path := Path(shutil.which(name) or "/no/initdb")).exists()]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        pytest.skip("there is no PostgreSQL server here: apt-get install postgresql")
    return folders[-1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server that lives as long as these tests."""
    folder, binaries = tmp_path_factory.mktemp("pg"), programs()
    as_user: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        if shutil.which("setpriv") is None or subprocess.run(["id", "postgres"], capture_output=True, check=False).returncode:
            pytest.skip("a PostgreSQL server does not run as root, and there is no user postgres or no setpriv")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        shutil.chown(folder, "postgres")
        for parent in folder.parents:
            with suppress(PermissionError):
                parent.chmod(parent.stat().st_mode | 0o011)
    data, options = folder / "data", f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    subprocess.run([*as_user, binaries / "initdb", "-D", data, "-U", "auditor", "-A", "trust"], check=True, capture_output=True)
    command = [*as_user, binaries / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]
    subprocess.run([*command, "-o", options, "start"], check=True, capture_output=True)
    yield f"postgresql://auditor@/postgres?host={folder}"
    subprocess.run([*command, "-m", "immediate", "stop"], check=True, capture_output=True)


@pytest.fixture
def place(server: str, request: pytest.FixtureRequest) -> str:
    name = f"{server}#{request.node.name}"
    ledger_database.create(name, empty())
    return name


def test_it_holds_what_a_file_holds(place: str, tmp_path: Path) -> None:
    file = tmp_path / "same.ledger"
    ledger_database.create(file, empty())
    for target in (place, file):
        for name in ("a", "b"):
            ledger_database.record(target, answer(name))
        ledger_database.change_budget(target, 500.0, moment="2026-02-01", note="the board")
    assert ledger_database.read(place) == ledger_database.read(file)  # the same entries have the same seal


def test_several_data_sets_live_in_one_database(server: str, place: str) -> None:
    other_place = f"{server}#neighbour"
    ledger_database.create(other_place, empty(1.0))
    ledger_database.record(place, answer("mine", 2.0))
    assert not ledger_database.load(other_place).releases
    with pytest.raises(BudgetExceeded):
        ledger_database.record(other_place, answer("too much", 2.0))
    with pytest.raises(ConfigError, match="exists already"):
        ledger_database.create(place, empty())


def test_four_at_once_lose_nothing_and_never_exceed_the_budget(server: str, place: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: ledger_database.record(place, answer(str(name))), range(12)))
    assert sorted(release.name for release in ledger_database.load(place).releases) == sorted(map(str, range(12)))
    small = f"{server}#small"
    ledger_database.create(small, empty(1.0))
    assert accepted_at_once(small, 4) == 2


def test_limits_hold_as_in_a_file(place: str, tmp_path: Path) -> None:
    """A further claim and a budget of a group: refused whole, kept with their reasons, the same seal as a file's."""
    file = tmp_path / "same.ledger"
    ledger_database.create(file, empty())
    shared = {"adjacency": Adjacency.REPLACE_ONE, "accountant": "composition_theorems"}
    board = Limit(name="board", budget_epsilon=1.0, delta=1e-8, **shared)  # type: ignore[arg-type]
    north = Limit(name="north", budget_epsilon=0.3, delta=1e-8, group="north", **shared)  # type: ignore[arg-type]
    for target in (place, file):
        for limit in (board, north):
            ledger_database.set_limit(target, limit, moment="2026-02-01", note="agreed")
        ledger_database.record(target, replace(answer("counts", 0.2), groups=("north",)))
        with pytest.raises(BudgetExceeded, match="'north'"):
            ledger_database.record(target, replace(answer("more counts", 0.2), groups=("north",)))
        with pytest.raises(BudgetExceeded, match="'board'"):
            ledger_database.record(target, answer("too much", 0.9))
        with pytest.raises(ConfigError, match="no limit is about the group 'nroth'"):
            ledger_database.record(target, replace(answer("a slip", 0.1), groups=("nroth",)))
    retained = ledger_database.read(place)
    assert retained == ledger_database.read(file) and retained.ledger.limits == (board, north)
    assert [release.name for release in retained.ledger.releases] == ["counts"]


def test_four_at_once_never_exceed_a_limit(place: str) -> None:
    """Of four releases of 0.4 at the same time a limit of 1 lets two through, however they meet."""
    limit = Limit(name="board", budget_epsilon=1.0, delta=1e-8, adjacency=Adjacency.ADD_REMOVE, accountant=empty().accountant)
    ledger_database.set_limit(place, limit, moment="2026-02-01", note="agreed")
    assert accepted_at_once(place, 4) == 2


def test_two_thousand_releases_load_at_once(server: str) -> None:
    """CPU time of the client, so that other work does not count; the server's own is a fraction of it."""
    name = f"{server}#many"
    release = Release(name="r", event=ApproximateDp(epsilon=0.01, delta=0.0), spent=1.0, source="s")
    ledger_database.create(name, replace(empty(), releases=(release,) * 2000))
    start = time.process_time()
    assert len(ledger_database.load(name).releases) == 2000
    assert time.process_time() - start < 1.0


def test_every_edit_is_refused_or_noticed(place: str) -> None:
    import sqlalchemy

    for name in ("a", "b"):
        ledger_database.record(place, answer(name))
    url, _, name = place.partition("#")
    engine = sqlalchemy.create_engine(sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"))
    change = sqlalchemy.text("UPDATE audit_ledger_entries SET body = '{}' WHERE ledger = :name AND position = 2")
    with pytest.raises(sqlalchemy.exc.DBAPIError, match="never changed"), engine.begin() as connection:
        connection.execute(change, {"name": name})
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("ALTER TABLE audit_ledger_entries DISABLE TRIGGER audit_ledger_no_change"))
        connection.execute(change, {"name": name})
        connection.execute(sqlalchemy.text("ALTER TABLE audit_ledger_entries ENABLE TRIGGER audit_ledger_no_change"))
    engine.dispose()
    with pytest.raises(DataError, match="changed or removed"):
        ledger_database.load(place)


def test_what_cannot_be_reached_is_named_without_its_password(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no ledger"):
        ledger_database.load(f"{server}#nobody")
    nowhere = f"postgresql://auditor:secret@/postgres?host={tmp_path}#people"
    for action, error in ((lambda: ledger_database.load(nowhere), OutputError),
                          (lambda: ledger_database.create(nowhere, empty()), OutputError)):  # fmt: skip
        with pytest.raises(error) as failure:
            action()
        assert "secret" not in str(failure.value) and "people" in str(failure.value)
    assert "secret" not in ledger_database.title(nowhere) and ledger_database.title("my.ledger") == "my.ledger"


def test_other_servers_are_refused() -> None:
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed: pip install 'epsilon-audit[postgres]'")
    for text in ("mysql://host/db", "://", "sqlite:///file"):
        with pytest.raises(ConfigError):
            ledger_database.load(text)
