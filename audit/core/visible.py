"""Text of others where it is shown: no character in it is obeyed by a terminal, a browser or a parser of XML."""

from __future__ import annotations

import unicodedata

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, direction and other format characters, halves of characters, separators


def visible(text: str, keep: str = "") -> str:
    """The text with every character that is not seen written out, but for those in `keep`.

    Titles, names and messages may come from files of others: a line break could forge a line, an escape sequence hide one, a
    mark of direction turn one round, and XML has no place for most control characters.

    >>> visible("a\\nb\\x1b[31m"), visible("a\\nb", keep="\\n")
    ('a\\\\nb\\\\x1b[31m', 'a\\nb')
    """
    hidden = {sign for sign in set(text) - set(keep) if unicodedata.category(sign) in _HIDDEN}
    return text.translate({ord(sign): sign.encode("unicode_escape").decode() for sign in hidden})
