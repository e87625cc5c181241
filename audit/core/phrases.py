"""English text that keeps its message and the values in it, so that reports can say it in other languages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

SLOT = re.compile(r"\{([a-z_]\w*)\}")


class Phrase(str):
    """English text, filled from a message.

    Attributes:
        message: with names in braces; by it a language finds its own.
        values: what is in place of each name; phrases themselves, or plain text.
    """

    message: str
    values: Mapping[str, str]

    def __new__(cls, message: str, values: Mapping[str, str]) -> Phrase:
        """Return the message with the values in it."""
        text = super().__new__(cls, message.format(**values))
        text.message, text.values = message, dict(values)
        return text

    def __str__(self) -> str:
        """Return the phrase itself, which the `str` of plain text would lose."""
        return self

    def __getnewargs__(self) -> tuple[str, Mapping[str, str]]:  # type: ignore[override]
        """Return what copies and pickles are made from."""
        return self.message, self.values


def phrase(message: str, /, **values: object) -> Phrase:
    """Return a message with values in place of the names in braces.

    >>> phrase("{taken} taken, {accounted} accounted", taken=120, accounted=120)
    '120 taken, 120 accounted'
    """
    return Phrase(message, {name: str(value) for name, value in values.items()})


def plain(text: str) -> str:
    """Return the text alone, for libraries that take no other string than Python's own, as YAML does.

    >>> type(plain(phrase("rate x{factor}", factor=2))).__name__
    'str'
    """
    return "".join(text)


def join_clauses(parts: Sequence[str], message: str = "{first}; {rest}") -> str:
    """Return clauses with semicolons between them, or with what the message has.

    >>> join_clauses(["one", "two", "three"])
    'one; two; three'
    """
    if len(parts) < 2:
        return parts[0] if parts else ""
    half = len(parts) // 2  # few levels of phrases in phrases, however many parts
    return phrase(message, first=join_clauses(parts[:half], message), rest=join_clauses(parts[half:], message))


def slots(message: str) -> set[str]:
    """Return the names in braces.

    >>> sorted(slots("{taken} taken, {accounted} accounted"))
    ['accounted', 'taken']
    """
    return set(SLOT.findall(message))
