"""The table of messages in report.json: each English text that was filled from a message, with that message and its values.

Whoever has another language finds its own sentence by the message, not by the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from audit.core.errors import DataError
from audit.core.phrases import SLOT, Phrase, slots

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
