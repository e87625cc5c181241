"""Which language a report is written in, and its sentences by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module

from audit.core.errors import ConfigError

LANGUAGES = ("en", "zh")
_LANGUAGE: ContextVar[str] = ContextVar("language of a report", default="en")


def current_language() -> str:
    """The language that is written now."""
    return _LANGUAGE.get()


@contextmanager
def written_in(language: str) -> Iterator[None]:
    """Everything rendered inside is written in `language`.

    Raises:
        ConfigError: reports are not written in it.
    """
    if language not in LANGUAGES:
        raise ConfigError(f"reports are not written in '{language}'; choose {' or '.join(LANGUAGES)}")
    token = _LANGUAGE.set(language)
    try:
        yield
    finally:
        _LANGUAGE.reset(token)


def sentences(language: str) -> Mapping[str, str]:
    """All sentences of a language by key."""
    texts: Mapping[str, str] = import_module(f"reports.words.languages.{language}").SENTENCES
    return texts


def say(key: str, **values: object) -> str:
    """The sentence of that key in the chosen language, with `values` in place of the names in braces.

    >>> say("answer.yes")
    'Yes'
    """
    return sentences(current_language())[key].format(**values)
