"""Names of records in reports: keyed with a secret that no report holds, so that only its holder can trace one back."""

import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from audit.core import files
from audit.core.errors import ConfigError

KEY_BYTES = 16
DIGITS = 10
_HEX = re.compile(rb"[0-9a-f]{32,128}")


@dataclass(frozen=True, slots=True)
class RecordKey:
    """The secret behind the names of one audit, at least 32 hexadecimal digits; `repr` does not show it."""

    text: bytes

    def __post_init__(self) -> None:
        if not _HEX.fullmatch(self.text):
            raise ConfigError("a record key has at least 32 hexadecimal digits (0-9a-f); make one with `openssl rand -hex 16`")

    def __repr__(self) -> str:
        return "RecordKey(...)"

    def name(self, row: int) -> str:
        """The name of one record, `DIGITS` hexadecimal digits (HMAC-SHA256, RFC 2104)."""
        return hmac.digest(self.text, f"record:{row}".encode(), "sha256").hex()[:DIGITS]

    def names(self, rows: Iterable[int]) -> list[str]:
        return [self.name(row) for row in rows]

    def rows(self, names: Iterable[str], count: int) -> dict[str, int]:
        """The row of each name, the first below `count` that has it; a name that no row has is left out."""
        remaining, rows_by_name = set(names), {}
        for row in range(count):
            if not remaining:
                break
            name = self.name(row)
            if name in remaining:
                rows_by_name[name] = row
                remaining.remove(name)
        return rows_by_name


def new_key() -> RecordKey:
    return RecordKey(secrets.token_hex(KEY_BYTES).encode())


def read_key(path: Path) -> bytes:
    """The key in a file, as text; `ConfigError` if the file cannot be read, or holds none."""
    try:
        text = files.read(path).strip()
    except OSError as error:
        raise ConfigError(f"cannot read the record key '{path}': {error.strerror}; expected the file of a run's key") from error
    return RecordKey(text).text
