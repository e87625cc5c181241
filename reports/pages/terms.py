"""The glossary of a report: the terms that its own pages use, and no other."""

import dataclasses
import re
from collections.abc import Iterator, Sequence

from reports.pages.blocks import Section, Terms
from reports.words import named
from reports.words.language import say


def section(pages: Sequence[Section]) -> Section:
    """The terms used in `pages` with their meanings."""
    words = " ".join(text for page in pages for block in page.blocks for text in texts(block))
    keys = [key for key in named.TERMS if re.search(say(f"uses.{key}"), words, re.IGNORECASE)]
    items = tuple((say(f"term.{key}"), say(f"meaning.{key}")) for key in keys)
    return Section(title=say("terms"), blocks=(Terms(items=items),))


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
