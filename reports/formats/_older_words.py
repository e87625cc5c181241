"""Messages of reports before version 2.0, which held English sentences alone: found again by the messages of that time."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from audit.core.phrases import SLOT, Phrase, join_clauses, phrase
from reports.formats import _messages
from reports.words.translation import TEXTS

_FIELDS = {name for names in TEXTS.values() for name in names} | {
    *("band", "canary", "doubt", "gate", "group", "law", "quantity", "question", "reading", "secret", "sentence", "words"),
}


def messages(plain: Any) -> dict[str, Any]:
    """Return the table of messages that an older report lacks."""
    return _messages.gather([find_message(text) for text in _texts(plain)])


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
