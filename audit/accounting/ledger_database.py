"""A budget ledger on disk: entries are only ever added, each chained to all before it by a hash.

Every setting is an entry as every release is. The last hash is the ledger's *seal*: noted elsewhere, it shows later that
nothing up to it was changed or removed. The accountant computes outside of any transaction; if another command was
faster, it computes again. The file is an SQLite database (`ledger_file`).

References: Crosby, Wallach 2009, "Efficient data structures for tamper-evident logging".
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.accounting import ledger, ledger_entries
from audit.accounting.ledger import Ledger, Limit, Release
from audit.accounting.ledger_entries import Body
from audit.accounting.ledger_file import FileStore
from audit.core import files
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.event_forms import plain
from audit.core.visible import without_passwords
from audit.execution import signature

Place = Path | str  # a file


def _store(place: Place) -> FileStore:
    """Return the file of a ledger; `ConfigError` if the place is a URL, not a file."""
    if "://" in str(place):
        raise ConfigError(f"'{without_passwords(str(place))}' is a URL; a ledger is a file on a local disk")
    return FileStore(Path(place))


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


def create(place: Place, ledger: Ledger) -> None:
    """Writes a new ledger, completely or not; `ConfigError` if there is one, `OutputError` if it cannot be written."""
    entries = [
        (ledger_entries.SETTINGS, ledger_entries.settings_body(ledger)),
        *((ledger_entries.RELEASE, ledger_entries.release_body(release)) for release in ledger.releases),
    ]
    _store(place).create(entries)


def load(place: Place) -> Ledger:
    """The ledger of a place where `create` wrote one; `DataError` if it is missing, something else, or an entry was changed or
    removed after it was recorded.
    """
    return read(place).ledger


def read(place: Place) -> Book:
    """The ledger with the hashes of its entries, all of them checked; `DataError` as for `load`."""
    store = _store(place)
    rows, last, seal = store.rows()
    hashes = ledger_entries.verify(rows, str(store))
    if (last, seal) != (len(rows), hashes[-1] if hashes else ""):
        raise DataError(f"{store}: its last entry was removed or replaced; the seal does not fit")
    if not rows or rows[0][1] != ledger_entries.SETTINGS:
        raise DataError(f"{store} does not begin with its settings")
    try:
        bodies = [(kind, json.loads(body)) for _, kind, body, _ in rows]
    except (ValueError, RecursionError) as error:
        raise DataError(f"{store}: an entry cannot be read: {error}") from error
    return Book(ledger=ledger_entries.restore(bodies, str(store)), hashes=hashes)


def record(place: Place, release: Release, *, unless_present: bool = False) -> Ledger:
    """Return the ledger after a release was recorded in its database.

    Args:
        unless_present: leave the ledger as it is if the very same release (name, event, note) is there already.

    Raises:
        BudgetExceeded: it would cost more than what is left; nothing is recorded.
        OutputError: the release cannot be written, or is not there when the ledger is read again.
    """

    def with_release(ledger: Ledger) -> tuple[Ledger, str, dict[str, Any]] | None:
        if unless_present and any(row.is_again(release) for row in ledger.releases):
            return None
        after = ledger.record(ledger.ask(), release)
        return after, ledger_entries.RELEASE, ledger_entries.release_body(after.releases[-1])

    return _extend(place, with_release)


def change_budget(place: Place, budget: float, *, moment: str, note: str) -> Ledger:
    """Return the ledger after its budget was changed on purpose, which stays on record with its reason; `ConfigError` for no
    positive budget, no reason, or a budget that is spent already.
    """
    if not note.strip():
        raise ConfigError("a budget is changed with a reason; --note says which")

    def with_budget(ledger: Ledger) -> tuple[Ledger, str, dict[str, Any]]:
        after = replace(ledger, budget_epsilon=budget)
        total = max((release.spent or 0.0 for release in ledger.releases), default=0.0)
        if total > budget:
            raise ConfigError(f"a budget of {budget:g} is below what is spent already, {total:.6g}")
        return after, ledger_entries.BUDGET, {"budget_epsilon": plain(budget), "when": moment, "note": note}

    return _extend(place, with_budget)


def set_limit(place: Place, limit: Limit, *, moment: str, note: str) -> Ledger:
    """Return the ledger with a further budget, or with that of the same name changed; both stay on record with their reason.
    Raises `ConfigError` for no reason, no upper bound, or a budget that is spent already.
    """
    if not note.strip():
        raise ConfigError("a limit is set with a reason; --note says which")

    def with_limit(ledger: Ledger) -> tuple[Ledger, str, dict[str, Any]]:
        total = ledger.total_spent(limit)
        if not total <= limit.budget_epsilon:
            raise ConfigError(f"a budget of {limit.budget_epsilon:g} is below what '{limit.name}' counts already, {total:.6g}")
        remaining = tuple(row for row in ledger.limits if row.name != limit.name)
        after = replace(ledger, limits=(*remaining, limit))
        return after, ledger_entries.LIMIT, ledger_entries.limit_body(limit, moment=moment, note=note)

    ledger.upper_accountant(limit.accountant)
    return _extend(place, with_limit)


def _extend(place: Place, change: Callable[[Ledger], tuple[Ledger, str, dict[str, Any]] | None]) -> Ledger:
    """The ledger with one entry more; computed again if another command wrote meanwhile."""
    while True:
        book = read(place)
        addition = change(book.ledger)
        if addition is None:
            return book.ledger
        after, kind, body = addition
        if _store(place).append(book.seal, (kind, body)):  # False if another entry has moved the seal since
            _confirm(place, book, (kind, body))
            return after


def _confirm(place: Place, before: Book, entry: Body) -> None:
    """Read the ledger again on its own connection, as the next command will; `OutputError` if the entry is not where it was
    written.
    """
    ((position, _, _, digest),) = ledger_entries.chained(len(before.hashes), before.seal, [entry])
    hashes = read(place).hashes
    if len(hashes) < position or hashes[position - 1] != digest:
        raise OutputError(
            f"{place}: the entry was written and is not there when the ledger is read again; it is not recorded. The "
            "file or its disk is damaged, or another program changes it"
        )


NAMESPACE = "epsilon-audit-ledger"
FIRST_WORDS = b"ledger of "
_STATEMENT = re.compile(FIRST_WORDS.decode() + r"([1-9][0-9]{0,11}) entries, seal ([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedHistory:
    """How much of a ledger a signature vouches for.

    Attributes:
        entries: that were signed; settings and changes of the budget are entries as releases are.
        later: entries added since, which no one signed.
        problem: why the signature says nothing of this ledger; "" if it does.
    """

    entries: int
    later: int
    problem: str = ""


def sign(book: Book, key: Path) -> bytes:
    """Return a file that says, signed by a private key of OpenSSH, what the ledger holds now; `ConfigError` if OpenSSH cannot
    use the key, `OutputError` if OpenSSH is absent.
    """
    statement = f"ledger of {len(book.hashes)} entries, seal {book.seal}\n".encode()
    return statement + signature.sign_bytes(statement, key, NAMESPACE)


def check(book: Book, file: Path, public: Path) -> SignedHistory:
    """Return what a signed file says of a ledger, by the public key of whoever is to have signed it; `DataError` if the file
    or the public key cannot be read, `OutputError` if OpenSSH is absent.
    """
    try:
        content = files.read(file)
    except OSError as error:
        raise DataError(f"cannot read the signature '{file}': {error.strerror}; `audit ledger sign` writes one") from error
    line, end, remainder = content.partition(b"\n")
    match = _STATEMENT.fullmatch(line.decode(errors="replace"))
    if match is None or not remainder.startswith(signature.FIRST_LINE):
        raise DataError(f"'{file}' is not a signature of a ledger; expected what `audit ledger sign` writes")
    entries, seal = int(match[1]), match[2]
    later = len(book.hashes) - entries
    if words := signature.refusal(line + end, remainder, public, NAMESPACE):
        return SignedHistory(entries=entries, later=later, problem=f"not signed by this key ({words})")
    if entries > len(book.hashes) or book.hashes[entries - 1] != seal:
        return SignedHistory(entries=entries, later=later, problem="entries that were signed were changed or removed since")
    return SignedHistory(entries=entries, later=later)
