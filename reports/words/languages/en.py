"""English."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from reports.words.languages._table import read_table

SENTENCES = read_table("en")["sentences"]
FORBIDDEN = (r"\b(is|are) (now )?(safe|private|anonymous|compliant)\b", r"\bpassed\b(?! )")


@dataclass(frozen=True, slots=True)
class English:
    """English, the language in which reports record their findings."""

    tag: ClassVar[str] = "en"
    sentences: ClassVar[Mapping[str, str]] = SENTENCES
    recorded: ClassVar[Mapping[str, str]] = {}
    forbidden: ClassVar[tuple[str, ...]] = FORBIDDEN
    fonts: ClassVar[tuple[str, ...]] = ()
    spaceless: ClassVar[str] = ""


PLUGIN = English
