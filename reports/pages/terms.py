"""The glossary of a report: the terms that its own pages use, and no other."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from reports.pages.blocks import Section, Terms
from reports.words import en


def section(pages: Sequence[Section]) -> Section:
    """The terms used in `pages` with what they mean."""
    words = " ".join(text for page in pages for block in page.blocks for text in texts(block))
    used = tuple((term, meaning) for term, meaning in en.GLOSSARY if re.search(en.USES[term], words, re.IGNORECASE))
    return Section(title="Terms", blocks=(Terms(items=used),))


def texts(value: object) -> Iterator[str]:
    """Every text inside a block."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for inner in value:
            yield from texts(inner)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from texts(getattr(value, field.name))
