"""Canaries as JSON lines, for trainers that only files reach: written before training, read again when a model is scored."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed
from audit.data import text_files


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCanary:
    """A text that ends in a secret.

    Attributes:
        included: the coin: whether it was to be trained on.
    """

    prefix: str
    secret: str
    included: bool

    @property
    def text(self) -> str:
        """Return what a training set that has it holds."""
        return self.prefix + self.secret


def digit_canaries(
    count: int, seed: Seed, *, digits: int = 8, prefix: str = "The access code of box {} is "
) -> list[TextCanary]:
    """Return canaries whose secrets are random digits, half of them included by independent fair coins.

    Raises:
        ConfigError: fewer than two, or a prefix without a place for the canary's number.
    """
    if count < 2 or prefix.count("{}") != 1:
        raise ConfigError(f"{count} canaries with prefix {prefix!r}; expected at least 2, and one {{}} for the canary's number")
    generator = seed.child("secrets").numpy()
    coins = seed.child("coins").numpy().random(count) < 0.5
    endings = ["".join(map(str, generator.integers(0, 10, digits))) for _ in range(count)]
    return [
        TextCanary(prefix=prefix.replace("{}", str(number)), secret=secret, included=bool(coin))
        for number, (secret, coin) in enumerate(zip(endings, coins, strict=True))
    ]


def new_salt() -> str:
    """Return 128 secret bits, without which a commitment to few or guessable coins is found by trying."""
    return secrets.token_hex(16)


def commitment(canaries: Sequence[TextCanary], salt: str) -> str:
    """Return the hash to publish before training: of the salt and all texts and coins, in order."""
    return hashlib.sha256("\n".join([salt, *map(_line, canaries)]).encode()).hexdigest()


def write(canaries: Sequence[TextCanary], place: Path) -> None:
    """Write the canaries with their coins, which stay secret until the scores are there."""
    place.write_text("".join(f"{_line(canary)}\n" for canary in canaries), encoding="utf-8")


def read(place: Path) -> list[TextCanary]:
    """Return the canaries of a file.

    Raises:
        DataError: it cannot be read as text, a line is no canary, or all coins fell on one side.
    """
    canaries = []
    for number, line in enumerate(text_files.whole_text(place)[0].split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}, line {number}: no JSON ({error})") from error
        columns = entry if isinstance(entry, dict) else {}
        prefix, secret, included = (columns.get(key) for key in ("prefix", "secret", "included"))
        if not (isinstance(prefix, str) and isinstance(secret, str) and isinstance(included, bool) and prefix and secret):
            raise DataError(f'{place}, line {number}: expected {{"prefix": text, "secret": text, "included": true or false}}')
        if any("\ud800" <= letter <= "\udfff" for letter in prefix + secret):  # JSON can name it, no encoding can write it
            raise DataError(f"{place}, line {number}: the text holds half a character (a lone surrogate); write whole ones")
        canaries.append(TextCanary(prefix=prefix, secret=secret, included=included))
    sides = np.array([canary.included for canary in canaries], dtype=bool)
    if sides.all() or not sides.any():
        raise DataError(
            f"{place} holds {len(canaries)} canaries of one side; expected some that are included and some that are not"
        )
    return canaries


def _line(canary: TextCanary) -> str:
    return json.dumps({"prefix": canary.prefix, "secret": canary.secret, "included": canary.included}, ensure_ascii=False)
