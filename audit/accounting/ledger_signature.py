"""A signature of a ledger's history: a key vouches for every entry up to a moment, in its own file.

What is signed is one line with the number of entries and the seal, the hash over all of them; it is above the signature, so
that the file says alone what it is about. The ledger may grow afterwards: the entries that were signed have to stay its
first ones.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from audit.accounting.ledger_database import Book
from audit.core import files
from audit.core.errors import DataError
from audit.execution import signature

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
