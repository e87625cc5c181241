"""Third-party text for display: no character in it is obeyed by a terminal, a browser or a parser of XML."""

from __future__ import annotations

import re
import unicodedata

_PASSWORD = re.compile(r"(://[^\s/:@]*):[^\s@]*@")
_NAMED_PASSWORD = re.compile(r"([?&][\w-]*(?:password|passwd|token|secret)=)[^\s&#]*", re.IGNORECASE)
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, direction and other format characters, halves of characters, separators


def visible(text: str, keep: str = "") -> str:
    """The text with every character that is not seen written out, but for those in `keep`.

    Titles, names and messages may come from third-party files: a line break could forge a line, an escape sequence hide one, a
    mark of direction turn one round, and XML has no place for most control characters.

    >>> visible("a\\nb\\x1b[31m"), visible("a\\nb", keep="\\n")
    ('a\\\\nb\\\\x1b[31m', 'a\\nb')
    """
    hidden = {sign for sign in set(text) - set(keep) if unicodedata.category(sign) in _HIDDEN}
    return text.translate({ord(sign): sign.encode("unicode_escape").decode() for sign in hidden}) if hidden else text


def without_passwords(text: str) -> str:
    """The text with the passwords of its URLs left out.

    >>> without_passwords("https://ann:pa/ss@host:5432/runs?verify=1&token=word#people")
    'https://ann:***@host:5432/runs?verify=1&token=***#people'
    """
    return _NAMED_PASSWORD.sub(r"\1***", _PASSWORD.sub(r"\1:***@", text))
