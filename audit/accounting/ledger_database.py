"""A budget ledger on disk: one SQLite database, to which entries are only ever added, each chained to all before it by a hash.

Every setting is an entry as every release is. The last hash is the ledger's *seal*: noted elsewhere, it shows later that
nothing up to it was changed or removed. The accountant computes outside of any transaction; where another command was
faster, it computes again.

References:
    sqlite.org/wal.html. Crosby, Wallach 2009, "Efficient data structures for tamper-evident logging".
"""

from __future__ import annotations

import json
import os
import sqlite3
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.accounting import ledger_entries
from audit.accounting.ledger import Ledger, Release
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.event_forms import plain
from audit.core.files import sync_folder

_APPLICATION, _VERSION = 0x65417564, 1  # "eAud", in the file's header
_PATIENCE = 10.0  # seconds that a command waits for another one that writes the same ledger
_MAGIC = b"SQLite format 3\x00"
_SCHEMA = (
    "CREATE TABLE entries (position INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE head (row INTEGER PRIMARY KEY CHECK (row = 1), position INTEGER NOT NULL, hash TEXT NOT NULL)",
    "CREATE TRIGGER no_change BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'an entry is never changed'); END",
    "CREATE TRIGGER no_removal BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'an entry is never removed'); END",
    "INSERT INTO head VALUES (1, 0, '')",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """A ledger as it was read.

    Attributes:
        hashes: of every entry, in order; the last one is the seal.
    """

    ledger: Ledger
    hashes: tuple[str, ...]

    @property
    def seal(self) -> str:
        """The hash over everything in the ledger."""
        return self.hashes[-1]


def create(path: Path, ledger: Ledger) -> None:
    """Writes a new ledger, whole or not at all.

    Raises:
        ConfigError: there is such a file.
        OutputError: it cannot be written.
    """
    entries = [
        (ledger_entries.SETTINGS, ledger_entries.settings_body(ledger)),
        *((ledger_entries.RELEASE, ledger_entries.release_body(release)) for release in ledger.releases),
    ]
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with _connect(temporary, "rwc") as database, _writing(database):
            for statement in _SCHEMA:
                database.execute(statement)
            _append(database, entries)
        os.link(temporary, path)  # which fails where there is such a file, while a rename would replace it
        sync_folder(path.parent)
    except FileExistsError:
        raise ConfigError(f"'{path}' exists already; choose another name, a ledger is never overwritten") from None
    except (OSError, sqlite3.Error) as error:
        raise OutputError(f"cannot write the ledger {path}: {error}") from error
    finally:
        for leftover in ("", "-wal", "-shm"):
            temporary.with_name(temporary.name + leftover).unlink(missing_ok=True)


def load(path: Path) -> Ledger:
    """The ledger of a database that `create` wrote.

    Raises:
        DataError: it is missing, something else, or an entry was changed or removed after it was recorded.
    """
    return read(path).ledger


def read(path: Path) -> Book:
    """The ledger with the hashes of its entries, all of them checked.

    Raises:
        DataError: as for `load`.
    """
    _recognise(path)
    try:
        with _connect(path, "rw" if _is_writable(path) else "ro") as database:
            return _read(database, path)
    except sqlite3.Error as error:
        raise DataError(f"cannot read the ledger {path}: {error}") from error


def record(path: Path, release: Release, *, unless_present: bool = False) -> Ledger:
    """Return the ledger after a release was recorded in its database.

    Args:
        unless_present: leave the ledger as it is where the very same release (name, event, note) is there already.

    Raises:
        BudgetExceeded: it would cost more than what is left; nothing is recorded.
    """

    def with_release(ledger: Ledger) -> tuple[Ledger, str, dict[str, Any]] | None:
        if unless_present and any(row.is_again(release) for row in ledger.releases):
            return None
        after = ledger.record(ledger.ask(), release)
        return after, ledger_entries.RELEASE, ledger_entries.release_body(after.releases[-1])

    return _extend(path, with_release)


def change_budget(path: Path, budget: float, *, moment: str, note: str) -> Ledger:
    """Return the ledger after its budget was changed on purpose, which stays on record with its reason.

    Raises:
        ConfigError: no positive budget, no reason, or a budget that is spent already.
    """
    if not note.strip():
        raise ConfigError("a budget is changed with a reason; --note says which")

    def with_budget(ledger: Ledger) -> tuple[Ledger, str, dict[str, Any]]:
        after = replace(ledger, budget_epsilon=budget)
        total = max((release.spent or 0.0 for release in ledger.releases), default=0.0)
        if total > budget:
            raise ConfigError(f"a budget of {budget:g} is below what is spent already, {total:.6g}")
        return after, ledger_entries.BUDGET, {"budget_epsilon": plain(budget), "when": moment, "note": note}

    return _extend(path, with_budget)


def _extend(path: Path, change: Callable[[Ledger], tuple[Ledger, str, dict[str, Any]] | None]) -> Ledger:
    """The ledger with one entry more; computed again where another command wrote meanwhile.

    Raises:
        OutputError: another command has been writing for ten seconds, or the entry cannot be written.
    """
    while True:
        book = read(path)
        addition = change(book.ledger)
        if addition is None:
            return book.ledger
        after, kind, body = addition
        try:
            with _connect(path, "rw") as database, _writing(database):
                (seal,) = database.execute("SELECT hash FROM head").fetchone()
                if seal == book.seal:
                    _append(database, [(kind, body)])
                    return after
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise OutputError(f"another command writes the ledger {path}; try again when it is done") from error
            raise OutputError(f"cannot write the ledger {path}: {error}") from error
        except sqlite3.Error as error:
            raise OutputError(f"cannot write the ledger {path}: {error}") from error


def _recognise(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise DataError(f"cannot read the ledger {path}: it is not a regular file")
    try:
        with path.open("rb") as file:
            first = file.read(len(_MAGIC))
    except OSError as error:
        raise DataError(f"cannot read the ledger {path}: {error}; `audit ledger create` makes one") from error
    if first.lstrip().startswith(b"{"):
        raise DataError(f"{path} is a ledger of an earlier version, in JSON; `audit ledger import {path} NEW` reads it")
    if first != _MAGIC:
        raise DataError(f"{path} is not a ledger; expected an SQLite database that `audit ledger create` made")


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


@contextmanager
def _connect(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection whose commits are on the disk when they return; where nothing may be written, one that only reads."""
    options = f"mode={mode}" + ("&immutable=1" if mode == "ro" else "")
    database = sqlite3.connect(
        f"file:{urllib.parse.quote(str(path))}?{options}", uri=True, timeout=_PATIENCE, isolation_level=None
    )
    try:
        if mode != "ro":
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
        yield database
    finally:
        database.close()


@contextmanager
def _writing(database: sqlite3.Connection) -> Iterator[None]:
    """One transaction that nobody else writes beside."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # what ended the block is what is raised
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _append(database: sqlite3.Connection, entries: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    position, digest = database.execute("SELECT position, hash FROM head").fetchone()
    for kind, body in entries:
        position, text = position + 1, json.dumps(body, sort_keys=True)
        digest = ledger_entries.chain_hash(digest, position, kind, text)
        database.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (position, kind, text, digest))
    database.execute("UPDATE head SET position = ?, hash = ?", (position, digest))


def _read(database: sqlite3.Connection, path: Path) -> Book:
    (application,), (version,) = (database.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if application != _APPLICATION or version != _VERSION:
        raise DataError(f"{path} is an SQLite database but no ledger of version {_VERSION}")
    database.execute("BEGIN")  # entries and head of one moment
    rows = database.execute("SELECT position, kind, body, hash FROM entries ORDER BY position").fetchall()
    last, seal = database.execute("SELECT position, hash FROM head").fetchone()
    database.execute("COMMIT")
    hashes = ledger_entries.verify(rows, path)
    if (last, seal) != (len(rows), hashes[-1] if hashes else ""):
        raise DataError(f"{path}: its last entry was removed or replaced; the seal does not fit")
    if not rows or rows[0][1] != ledger_entries.SETTINGS:
        raise DataError(f"{path} does not begin with its settings")
    ledger = ledger_entries.restore([(kind, json.loads(body)) for _, kind, body, _ in rows], path)
    return Book(ledger=ledger, hashes=hashes)
