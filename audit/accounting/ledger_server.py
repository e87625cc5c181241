"""Ledgers of a team in one PostgreSQL database, each under the name of its data set: the same entries, chained as in a file.

A place is the URL of the database with the name behind a `#`: `postgresql://user@host/privacy#people` (`#main` if none is
given). Every table holds all ledgers; a transaction locks the head of the one that it writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from audit.accounting.ledger_entries import Body, Row, chained
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.visible import without_passwords

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_PATIENCE = "10s"  # that a command waits for another one that writes the same ledger
_TABLES = """
CREATE TABLE IF NOT EXISTS audit_ledger_heads (
    ledger TEXT PRIMARY KEY, position INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS audit_ledger_entries (
    ledger TEXT NOT NULL REFERENCES audit_ledger_heads, position INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    hash TEXT NOT NULL, PRIMARY KEY (ledger, position));
CREATE OR REPLACE FUNCTION audit_ledger_refusal() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RAISE EXCEPTION ''an entry is never changed or removed''; END';
CREATE OR REPLACE TRIGGER audit_ledger_no_change BEFORE UPDATE OR DELETE ON audit_ledger_entries
    FOR EACH ROW EXECUTE FUNCTION audit_ledger_refusal();
"""


@dataclass(frozen=True)
class ServerStore:
    """A ledger of a PostgreSQL database.

    Attributes:
        place: URL of the database, `#` and the name of the ledger.
    """

    place: str

    @property
    def name(self) -> str:
        """Return the name of the ledger in its database."""
        return self.place.partition("#")[2] or "main"

    def __str__(self) -> str:
        return f"{without_passwords(self.place.partition('#')[0])}#{self.name}"

    @cached_property
    def _engine(self) -> Engine:
        try:
            import sqlalchemy
        except ImportError as error:
            raise ConfigError("a ledger on a server needs SQLAlchemy: pip install 'epsilon-audit[postgres]'") from error
        try:
            url = sqlalchemy.make_url(self.place.partition("#")[0])
            if url.get_backend_name() != "postgresql":
                raise ConfigError(f"a ledger is kept by {url.get_backend_name()}; expected postgresql://, or a file")
            options = {"options": f"-c lock_timeout={_PATIENCE} -c synchronous_commit=on", "connect_timeout": 10}
            return sqlalchemy.create_engine(
                url.set(drivername="postgresql+psycopg"), poolclass=sqlalchemy.NullPool, connect_args=options
            )
        except ImportError as error:
            raise ConfigError(f"a ledger on a server needs psycopg: {error}; pip install 'epsilon-audit[postgres]'") from error
        except (sqlalchemy.exc.ArgumentError, ValueError) as error:  # which may hold the URL
            raise ConfigError(f"'{self}' does not name a ledger; expected postgresql://user@host:port/db#name") from error

    @contextmanager
    def _transaction(self, purpose: str) -> Iterator[Connection]:
        import sqlalchemy

        try:
            with self._engine.begin() as connection:
                yield connection
        except sqlalchemy.exc.SQLAlchemyError as error:
            reason = without_passwords(str(getattr(error, "orig", None) or error).strip())
            if "lock timeout" in reason:
                raise OutputError(f"another command writes the ledger {self}; try again when it is done") from error
            raise OutputError(f"cannot {purpose} the ledger {self}: {reason}") from error

    def create(self, entries: Sequence[Body]) -> None:
        """Write a new ledger, completely or not.

        Raises:
            ConfigError: there is one of this name.
            OutputError: it cannot be written.
        """
        with self._transaction("write") as connection:
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(1701860724)")  # tables are made by one command at a time
            connection.exec_driver_sql(_TABLES)
            added = _run(
                connection,
                "INSERT INTO audit_ledger_heads VALUES (:ledger, 0, '') ON CONFLICT DO NOTHING RETURNING ledger",
                ledger=self.name,
            ).fetchall()
            if not added:
                raise ConfigError(f"'{self}' exists already; choose another name, a ledger is never overwritten")
            self._append(connection, chained(0, "", entries))

    def rows(self) -> tuple[list[Row], int, str]:
        """Return all entries in order, and the last position and the hash that the head states, of one moment.

        Raises:
            DataError: there is no such ledger.
            OutputError: the server cannot be reached.
        """
        with self._transaction("read") as connection:
            (exists,) = _run(connection, "SELECT to_regclass('audit_ledger_heads') IS NOT NULL").one()
            joined = (
                _run(
                    connection,
                    "SELECT h.position, h.hash, e.position, e.kind, e.body, e.hash FROM audit_ledger_heads h LEFT JOIN "
                    "audit_ledger_entries e USING (ledger) WHERE ledger = :ledger ORDER BY e.position",
                    ledger=self.name,
                ).fetchall()
                if exists
                else []
            )
        if not joined:
            raise DataError(f"there is no ledger {self}; `audit ledger create` makes one")
        rows = [(position, kind, body, digest) for _, _, position, kind, body, digest in joined if position is not None]
        return rows, joined[0][0], joined[0][1]

    def append(self, seal: str, entry: Body) -> bool:
        """Add an entry behind the one of this hash; False if another command added one meanwhile.

        Raises:
            OutputError: another command has been writing for ten seconds, or the entry cannot be written.
        """
        with self._transaction("write") as connection:
            position, digest = _run(
                connection, "SELECT position, hash FROM audit_ledger_heads WHERE ledger = :ledger FOR UPDATE", ledger=self.name
            ).one()
            if digest != seal:
                return False
            self._append(connection, chained(position, digest, [entry]))
        return True

    def _append(self, connection: Connection, rows: Sequence[Row]) -> None:
        for position, kind, body, digest in rows:
            _run(
                connection,
                "INSERT INTO audit_ledger_entries VALUES (:ledger, :position, :kind, :body, :digest)",
                ledger=self.name, position=position, kind=kind, body=body, digest=digest,
            )  # fmt: skip
        _run(
            connection,
            "UPDATE audit_ledger_heads SET position = :position, hash = :digest WHERE ledger = :ledger",
            ledger=self.name, position=rows[-1][0], digest=rows[-1][3],
        )  # fmt: skip


def _run(connection: Connection, statement: str, **values: Any) -> Any:
    import sqlalchemy

    return connection.execute(sqlalchemy.text(statement), values)
