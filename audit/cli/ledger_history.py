"""`audit ledger sign | verify`: a ledger's history, sealed by a hash over every entry, and signed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli.printing import AsJson, print_plain, print_result
from audit.core.errors import ConfigError, OutputError

if TYPE_CHECKING:
    from audit.accounting.ledger_database import Book

File = Annotated[str, typer.Argument(metavar="FILE", help="File of the ledger.")]
SUFFIX = ".sig"


def sign(
    file: File,
    key: Annotated[Path, typer.Option(metavar="KEY", help="Private key of OpenSSH that signs.")],
    output: Annotated[Path | None, typer.Option("--out", help="File of the signature. Default: FILE.sig.")] = None,
) -> int:
    """Write a signature of the history as it is now to a file; `audit ledger verify --key` checks it later."""
    from audit.accounting import ledger_database
    from audit.core import files

    target = output or Path(file + SUFFIX)
    _check_target(target, file, key)
    book = ledger_database.read(file)
    content = ledger_database.sign(book, key)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(target, content)
    except OSError as error:
        raise OutputError(f"cannot write the signature '{target}': {error.strerror}; choose another file with --out") from error
    entries = len(book.hashes)
    print_plain(f"{entries} {'entry' if entries == 1 else 'entries'} signed in {target}; the seal is {book.seal}")
    return 0


def verify(
    file: File,
    seal: Annotated[str | None, typer.Option(help="Seal noted earlier; it has to be part of the history.")] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="KEY.pub", help="Public key of OpenSSH that has to have signed the history.")
    ] = None,
    signature: Annotated[Path | None, typer.Option(help="File of the signature, with --key. Default: FILE.sig.")] = None,
    as_json: AsJson = False,
) -> int:
    """Check every entry's hash, and a seal or signature; exit code 1 if the history is not what was noted or signed."""
    from audit.accounting import ledger_database

    if signature is not None and key is None:
        raise ConfigError("a signature is checked by the public key of the person who signed; give it with --key")
    book = ledger_database.read(file)
    is_present, is_signed = seal is None or seal in book.hashes, True
    row: dict[str, Any] = {"entries": len(book.hashes), "seal": book.seal, "known": is_present}
    lines = [f"entries in an unbroken chain (settings, budgets, releases): {len(book.hashes)}; the seal is {book.seal}"]
    if not is_present:
        lines = [f"the seal {seal} is not part of the history: entries before it were changed or removed"]
    if key is not None:
        is_signed, words, fields = _signature_row(book, signature or Path(file + SUFFIX), key)
        lines, row = [*lines, words], row | fields
    print_result(as_json, row, *lines)
    return 0 if is_present and is_signed else 1


def _signature_row(book: Book, file: Path, key: Path) -> tuple[bool, str, dict[str, Any]]:
    """Return whether the history is signed, in words and as fields."""
    from audit.accounting import ledger_database

    history = ledger_database.check(book, file, key)
    fields = {"signed_entries": 0 if history.problem else history.entries, "signature_problem": history.problem}
    if history.problem:
        return False, f"{file}: {history.problem}", fields
    return True, f"the first {history.entries} are signed by this key, {history.later} were added since", fields


def _check_target(target: Path, place: str, key: Path) -> None:
    """Refuse to replace what is no earlier signature of a ledger: the ledger itself, the key, any other file."""
    from audit.accounting import ledger_database
    from audit.core import files

    for peer, name in ((place, "the ledger"), (key, "the key")):
        if files.is_same_file(target, peer):
            raise ConfigError(f"'{target}' is {name} itself; name a file of its own for the signature with --out")
    try:
        is_signature = files.read(target).startswith(ledger_database.FIRST_WORDS)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"'{target}' cannot be replaced by a signature: {error.strerror}; name another with --out") from error
    if not is_signature:
        raise ConfigError(f"'{target}' exists and is not a signature of a ledger; name another file with --out")
