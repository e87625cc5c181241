"""The sentences of a report by key."""

from __future__ import annotations

from reports.words.languages import en

LANGUAGE = "en"  # of every sentence, as documents declare it


def say(key: str, **values: object) -> str:
    """The sentence of that key, with `values` in place of the names in braces.

    >>> say("answer.yes")
    'Yes'
    """
    return en.SENTENCES[key].format(**values)
