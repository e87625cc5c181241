"""The table of messages in report.json: each English text that was filled from a message, with that message and its values.

Whoever has another language finds its own sentence by the message, not by the text.
"""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from audit.core.errors import DataError
from audit.core.phrases import SLOT, Phrase, join_clauses, phrase, slots
from reports.words.translation import TEXTS

FIELD = "messages"
_MOST_LEVELS = 200  # of phrases in phrases: further ones would take more calls than Python allows


def gather(plain: Any) -> dict[str, Any]:
    """Return the table of the phrases in a plain object, by their texts."""
    table: dict[str, Any] = {}
    waiting = list(_phrases(plain))
    while waiting:
        text = waiting.pop()
        if text not in table:
            table[text] = {"message": text.message, "values": dict(text.values)}
            waiting += [value for value in text.values.values() if isinstance(value, Phrase)]
    return table


def _phrases(plain: Any) -> Iterator[Phrase]:
    if isinstance(plain, Phrase):
        yield plain
    elif isinstance(plain, dict):
        for value in plain.values():
            yield from _phrases(value)
    elif isinstance(plain, list) and not all(type(value) is float for value in plain):
        for value in plain:
            yield from _phrases(value)


def read(table: Any) -> dict[str, Phrase]:
    """Return the phrases of a table by their texts; `DataError` if message and values of an entry do not give its text."""
    if not isinstance(table, dict):
        raise DataError(f"{FIELD} of the report is {table!r:.60}; expected an object")
    phrases: dict[str, Phrase] = {}
    levels: dict[str, int] = {}
    for text in sorted(table, key=len):  # a value is shorter than the text that it is in
        message, values = _entry(text, table[text])
        inner = [value for value in values.values() if value in phrases]
        levels[text] = 1 + max((levels[value] for value in inner), default=0)
        phrases[text] = Phrase(message, {name: phrases.get(value, value) for name, value in values.items()})
        if phrases[text] != text or levels[text] > _MOST_LEVELS:
            raise DataError(f"{FIELD} of the report has {text!r:.60}, which its message and values do not give")
    return phrases


def _entry(text: str, entry: Any) -> tuple[str, dict[str, str]]:
    """Return message and values; a message with anything but names in braces is refused, since filling it could do anything."""
    fields = entry if isinstance(entry, dict) else {}
    message, values = fields.get("message"), fields.get("values")
    if (
        set(fields) != {"message", "values"}
        or not isinstance(message, str)
        or not isinstance(values, dict)
        or not all(isinstance(value, str) for value in values.values())
    ):
        raise DataError(f"{FIELD} of the report has {entry!r:.60} for {text!r:.60}; expected a message and values")
    if slots(message) != set(values) or set(SLOT.sub("", message)) & set("{}"):
        raise DataError(f"{FIELD} of the report has the message {message!r:.60}; expected {', '.join(values)} in braces")
    return message, values


def restore(plain: Any, phrases: Mapping[str, Phrase]) -> Any:
    """Return the plain object with phrases in place of their texts."""
    if isinstance(plain, str):
        return phrases.get(plain, plain)
    if isinstance(plain, dict):
        return {key: restore(value, phrases) for key, value in plain.items()}
    if isinstance(plain, list) and not all(type(value) is float for value in plain):
        return [restore(value, phrases) for value in plain]
    return plain


_FIELDS = {name for names in TEXTS.values() for name in names} | {
    *("band", "canary", "doubt", "gate", "group", "law", "quantity", "question", "reading", "secret", "sentence", "words"),
}


def gather_older(plain: Any) -> dict[str, Any]:
    """Return the table of messages that an older report lacks."""
    return gather([find_message(text) for text in _texts(plain)])


def _texts(plain: Any, name: str = "") -> Iterator[str]:
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield from _texts(value, key)
    elif isinstance(plain, list):
        for value in plain:
            yield from _texts(value, name) if isinstance(value, dict | list | str) else ()
    elif isinstance(plain, str) and plain and name in _FIELDS:
        yield plain


@lru_cache(maxsize=4096)
def find_message(text: str) -> str:
    """Return a text as a phrase, if a message of that time with names in braces gives it."""
    if text in _older_messages():
        return text
    if text.endswith("."):  # before the patterns: a short one may match the sentence with its full stop
        inner = find_message(text[:-1])
        return phrase("{text}.", text=inner)
    for message, pattern in _patterns():
        if match := pattern.fullmatch(text):
            return Phrase(message, {name: find_message(value) for name, value in match.groupdict().items()})
    parts = text.split("; ")
    return join_clauses([find_message(part) for part in parts]) if len(parts) > 1 else text


@lru_cache(maxsize=1)
def _older_messages() -> dict[str, None]:
    table = (importlib.resources.files(__package__) / "older_messages.json").read_text("utf-8")
    return dict.fromkeys(json.loads(table))


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Messages with a pattern of the texts that they give, those with most fixed letters first."""
    return tuple((message, _pattern(message)) for message in _older_messages() if SLOT.search(message))


def _pattern(message: str) -> re.Pattern[str]:
    pieces = SLOT.split(message)
    # a split by a pattern with one group has what the group matched at odd places
    parts = [f"(?P<{piece}>.+?)" if place % 2 else re.escape(piece) for place, piece in enumerate(pieces)]
    return re.compile("".join(parts), re.DOTALL)
