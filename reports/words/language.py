"""The language a report is written in: its sentences by key, and what reports record in English said in that language."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Protocol

from audit import plugins
from audit.core.errors import ConfigError
from audit.core.phrases import Phrase, slots
from audit.core.rounding import count

PACKAGE = "reports.words.languages"
ENGLISH = "en"


class Language(Protocol):
    """One file of `reports/words/languages`.

    Attributes:
        tag: BCP 47, as documents declare it.
        sentences: by key; a key has the same names in braces in every language. Forms for one and for many are on the two
            sides of a bar.
        recorded: messages that reports record in English (`audit.core.phrases`), and what is said here in place of each.
        forbidden: patterns of words that no report in this language may say alone.
        fonts: families for its letters, after that of the Latin ones.
        spaceless: letters between which no space is, as the inside of a character class; "" for none.
    """

    tag: str
    sentences: Mapping[str, str]
    recorded: Mapping[str, str]
    forbidden: tuple[str, ...]
    fonts: tuple[str, ...]
    spaceless: str


# no global: threads and tasks may render reports in two languages at the same time
_CURRENT: ContextVar[Language | None] = ContextVar("language", default=None)


def find(name: str) -> Language:
    """Return a language: a file of `reports/words/languages`, or `package.module:Class`; else `ConfigError`."""
    language: Language = plugins.build(PACKAGE, {"kind": name}, "languages")
    lacking = [attribute for attribute in Language.__annotations__ if not hasattr(language, attribute)]
    if lacking:
        raise ConfigError(f"the language '{name}' has no {', '.join(lacking)}; see reports.words.language.Language")
    english = _load(ENGLISH).sentences
    missing = sorted(set(english) - set(language.sentences))
    if missing:
        raise ConfigError(
            f"the language '{name}' lacks {len(missing)} sentences, the first is '{missing[0]}'; add them to its file"
        )
    for key in english if ":" in name else ():  # of the languages here a test compares them
        sentence = language.sentences[key]
        if not isinstance(sentence, str) or slots(sentence) != slots(english[key]):
            raise ConfigError(f"the language '{name}' says '{key}' with other names in braces than {english[key]!r}")
    return language


@lru_cache(maxsize=1)
def _load(name: str) -> Language:
    language: Language = plugins.build(PACKAGE, {"kind": name}, "languages")
    return language


@contextmanager
def speaking(name: str) -> Iterator[Language]:
    """Everything rendered inside is in the language of that name."""
    language = find(name)
    token = _CURRENT.set(language)
    try:
        yield language
    finally:
        _CURRENT.reset(token)


def current() -> Language:
    """The language of what is being rendered; English if no one chose."""
    return _CURRENT.get() or _load(ENGLISH)


def say(key: str, **values: object) -> str:
    """The sentence of that key, with `values` in place of the names in braces.

    >>> say("answer.yes")
    'Yes'
    """
    language = current()
    text = language.sentences[key].format(**values)
    return _joints(language.spaceless).sub("", text) if language.spaceless else text


@lru_cache(maxsize=8)
def _joints(letters: str) -> re.Pattern[str]:
    return re.compile(f"(?<=[{letters}]) (?=[{letters}])")


def many(key: str, number: int) -> str:
    """A count with its noun.

    >>> many("noun.attack", 1), many("noun.attack", 2)
    ('1 attack', '2 attacks')
    """
    forms = current().sentences[key].split("|")
    return forms[0 if number == 1 else -1].format(count=count(number))


def recorded(text: str) -> str:
    """Return what a report records in English, in the language of the document; what no one translated stays as it is.

    >>> recorded("add or remove one record")
    'add or remove one record'
    """
    table = current().recorded
    if isinstance(text, Phrase) and text.message in table:
        return table[text.message].format(**{name: recorded(value) for name, value in text.values.items()})
    return table.get(text, text)
