"""A ledger in a file: one SQLite database, which waits for who writes it and loses nothing at a kill.

References: sqlite.org/wal.html.
"""

import os
import sqlite3
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from audit.accounting.ledger_entries import Body, Row, chained
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.files import sync_folder

_APPLICATION, _VERSION = 0x65417564, 1  # "eAud", in the file's header
_ATTEMPTS = 20
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


@dataclass(frozen=True, slots=True)
class FileStore:
    """A ledger of one file."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def create(self, entries: Sequence[Body]) -> None:
        """Write a new ledger, completely or not; `ConfigError` if there is one, `OutputError` if it cannot be written."""
        path = self.path
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with _connect(temporary, "rwc") as database, _writing(database):
                for statement in _SCHEMA:
                    database.execute(statement)
                _append(database, chained(0, "", entries))
            os.link(temporary, path)  # which fails if there is such a file, while a rename would replace it
            sync_folder(path.parent)
        except FileExistsError:
            raise ConfigError(f"'{path}' exists already; choose another name, a ledger is never overwritten") from None
        except (OSError, sqlite3.Error) as error:
            raise OutputError(f"cannot write the ledger {path}: {error}") from error
        finally:
            for leftover in ("", "-wal", "-shm"):
                temporary.with_name(temporary.name + leftover).unlink(missing_ok=True)

    def rows(self) -> tuple[list[Row], int, str]:
        """Return all entries in order, and the last position and the hash that the head states, of one moment.

        Raises:
            DataError: it is missing, or something else.
            OutputError: the disk, or who writes the ledger, keeps it from being read.
        """
        _recognise(self.path)
        try:
            if _is_writable(self.path):
                with _connect(self.path, "rw") as database:
                    return _rows(database, self.path)
            with _copy(self.path) as copy, _connect(copy, "rw") as database:
                return _rows(database, self.path)
        except sqlite3.OperationalError as error:  # the disk, its space, a lock: nothing is said about what the file holds
            raise OutputError(f"cannot read the ledger {self.path}: {error}") from error
        except sqlite3.Error as error:
            raise DataError(f"cannot read the ledger {self.path}: {error}") from error

    def append(self, seal: str, entry: Body) -> bool:
        """Add an entry behind the one of this hash; False if another command added one meanwhile.

        Raises:
            OutputError: another command has been writing for ten seconds, or the entry cannot be written.
        """
        try:
            with _connect(self.path, "rw") as database, _writing(database):
                _refuse_other_schema(database, self.path)
                position, digest = database.execute("SELECT position, hash FROM head").fetchone()
                if digest != seal:
                    return False
                _append(database, chained(position, digest, [entry]))
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise OutputError(f"another command writes the ledger {self.path}; try again when it is done") from error
            raise OutputError(f"cannot write the ledger {self.path}: {error}") from error
        except sqlite3.Error as error:
            raise OutputError(f"cannot write the ledger {self.path}: {error}") from error
        return True


def _recognise(path: Path) -> None:
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"cannot read the ledger {path}: it is not a regular file")
        with path.open("rb") as file:
            first = file.read(len(_MAGIC))
    except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError) as error:
        raise DataError(f"cannot read the ledger {path}: {error}; `audit ledger create` makes one") from error
    except OSError as error:  # the disk or the network that it is on
        raise OutputError(f"cannot read the ledger {path}: {error}") from error
    if first.lstrip().startswith(b"{"):
        raise DataError(f"{path} is a ledger in JSON, from before 0.1.0; `audit ledger import` of version 0.1.0 reads it")
    if first != _MAGIC:
        raise DataError(f"{path} is not a ledger; expected an SQLite database that `audit ledger create` made")


@contextmanager
def _copy(path: Path) -> Iterator[Path]:
    """A copy of a ledger that may not be written, of one moment, with what writers have not yet moved out of its log.

    Raises:
        OutputError: it is written all the time, or there is no room for a copy.
    """
    log = path.with_name(f"{path.name}-wal")
    try:
        with tempfile.TemporaryDirectory(prefix="ledger") as folder:
            copy = Path(folder) / "ledger"
            for _ in range(_ATTEMPTS):
                before = _state(path), _state(log)
                copy.write_bytes(path.read_bytes())
                copy.with_name("ledger-wal").write_bytes(log.read_bytes() if before[1] else b"")
                if (_state(path), _state(log)) == before:
                    break
                time.sleep(_PATIENCE / _ATTEMPTS)
            else:
                raise OutputError(f"another command writes the ledger {path}; try again when it is done")
            yield copy
    except OSError as error:
        raise OutputError(
            f"cannot read the ledger {path}: {error}. It may not be written here, so that it is read from a copy with its log "
            f"({log.name}); ask its owner for the permission to read both"
        ) from error


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of the last change; None if there is no such file, or nothing in it."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_size, status.st_mtime_ns) if status.st_size else None


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


@contextmanager
def _connect(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection with commits that are on the disk when they return."""
    database = sqlite3.connect(
        f"file:{urllib.parse.quote(str(path))}?mode={mode}", uri=True, timeout=_PATIENCE, isolation_level=None
    )
    try:
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        yield database
    finally:
        database.close()


@contextmanager
def _writing(database: sqlite3.Connection) -> Iterator[None]:
    """One transaction that no one else writes beside."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # what ended the block is what is raised
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _append(database: sqlite3.Connection, rows: Sequence[Row]) -> None:
    database.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", rows)
    database.execute("UPDATE head SET position = ?, hash = ?", (rows[-1][0], rows[-1][3]))


def _refuse_other_schema(database: sqlite3.Connection, path: Path) -> None:
    """Raise `DataError` if the database holds anything but the tables and triggers of a ledger, which could change what is
    written: a further trigger can drop an entry while the statement that adds it succeeds."""
    (application,), (version,) = (database.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if application != _APPLICATION or version != _VERSION:
        raise DataError(f"{path} is an SQLite database but no ledger of version {_VERSION}")
    present = {text for (text,) in database.execute("SELECT sql FROM sqlite_master")}
    expected = {statement for statement in _SCHEMA if statement.startswith("CREATE")}
    if present != expected:
        foreign = next(iter(str(text) for text in present - expected), "")
        raise DataError(
            f"{path}: its tables or triggers are not those of a ledger{f' ({foreign[:60]})' * bool(foreign)}; it was changed "
            "by another program, and what it shows may be incomplete. Restore it from a backup"
        )


def _rows(database: sqlite3.Connection, path: Path) -> tuple[list[Row], int, str]:
    database.execute("BEGIN")  # schema, entries and head of one moment
    _refuse_other_schema(database, path)
    rows = database.execute("SELECT position, kind, body, hash FROM entries ORDER BY position").fetchall()
    heads = database.execute("SELECT position, hash FROM head").fetchall()
    database.execute("COMMIT")
    if len(heads) != 1 or not all(isinstance(value, str) for row in rows for value in row[1:]):  # SQLite holds any type
        raise DataError(f"{path}: an entry is not text, or its head is missing; the ledger is damaged. Restore a backup")
    ((position, digest),) = heads
    return rows, position, digest
