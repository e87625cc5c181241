"""The language a report is written in: its sentences by key, and what reports record in English said in that language."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import ParamSpec, Protocol

from audit import plugins
from audit.core import rounding
from audit.core.errors import ConfigError
from audit.core.game_results import AttackResult
from audit.core.phrases import Phrase, slots

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


Arguments = ParamSpec("Arguments")
SPACE, confidence, count = rounding.SPACE, rounding.confidence, rounding.count
elide, power, target = rounding.elide, rounding.power, rounding.target
_WORDS = {rounding.DASH: "number.not_measured", rounding.NO_GUARANTEE: "number.no_guarantee"}


def _in_words(function: Callable[Arguments, str]) -> Callable[Arguments, str]:
    """The same function, with words of the language for what is no number."""

    @functools.wraps(function)
    def in_words(*args: Arguments.args, **options: Arguments.kwargs) -> str:
        text = function(*args, **options)
        return say(_WORDS[text]) if text in _WORDS else text

    return in_words


down, up, near = _in_words(rounding.down), _in_words(rounding.up), _in_words(rounding.near)
percent, rate = _in_words(rounding.percent), _in_words(rounding.rate)
significant, figure = _in_words(rounding.significant), _in_words(rounding.figure)


def not_measured() -> str:
    """Return what is instead of a number that there is not."""
    return say("number.not_measured")


def area(attack: AttackResult) -> str:
    """Return the AUC, unless one side has a single record."""
    return not_measured() if attack.auc is None else near(attack.auc, 3)


def at_least(value: float) -> str:
    """A proven epsilon as a phrase."""
    return f"ε{SPACE}≥{SPACE}{down(value)}"


def at_most(value: float) -> str:
    """A claimed epsilon as a phrase."""
    return say("number.no_finite_epsilon") if value == float("inf") else f"ε{SPACE}≤{SPACE}{up(value)}"


def at_delta(delta: float) -> str:
    """The delta that a figure belongs to, as a phrase."""
    return say("number.at_delta", delta=power(delta))


def epsilon(value: str) -> str:
    """A figure that is already rounded, named as an epsilon."""
    return f"ε{SPACE}={SPACE}{value}"
