"""What a page is made of. Text is a value, never markup, so no name of a user's can become a command of the typesetter."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from audit.core.rounding import width
from reports.words.language import say

LONG_NAME = 20  # letters of a user's name


class Tone(StrEnum):
    """The mood of a box, a number or a word; the template gives it a colour and a mark."""

    PLAIN = "plain"
    CLAIM = "claim"
    MEASURED = "measured"
    CHANCE = "chance"
    GOOD = "good"
    OPEN = "open"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Mono:
    """A word set in a typewriter face: a name, a hash, a command."""

    text: str


@dataclass(frozen=True, slots=True)
class Strong:
    """A word that carries the sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A status word with its mark."""

    text: str
    tone: Tone


Piece = str | Mono | Strong | Mark
Text = Piece | tuple[Piece, ...]


def pieces(text: Text) -> tuple[Piece, ...]:
    """Return the pieces of a text, a single one too."""
    return text if isinstance(text, tuple) else (text,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Running text; `small` for remarks below a table or figure."""

    text: Text
    small: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A heading inside a section, one level below the section's own."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its title, its alignment and its share of the width (0 for as wide as its text)."""

    title: str
    right: bool = False
    share: float = 0.0


def name_column(title: str, names: Sequence[str]) -> Column:
    """Return a column as wide as the names in it, or one that breaks them if they would leave no room to others."""
    return Column(title=title, share=0.8 if max(map(width, names), default=0) > LONG_NAME else 0.0)


def layout(columns: str) -> tuple[Column, ...]:
    """Return the columns of a table from their titles in a row.

    A title with a dot is the key of its sentence. `>` before it sets the column to the right, `:` and a number behind it state
    the share of the width.

    >>> layout("game_table.attack >AUC:0.5")[1]
    Column(title='AUC', right=True, share=0.5)
    """
    entries = [column.partition(":") for column in columns.split()]
    titles = [title.lstrip(">") for title, _, _ in entries]
    return tuple(
        Column(title=say(title) if "." in title else title, right=entry.startswith(">"), share=float(share or 0))
        for title, (entry, _, share) in zip(titles, entries, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under a header that is repeated on every page."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Text, ...], ...]
    small: bool = False

    def only(self, places: Sequence[int]) -> Self:
        """Return the table with the columns at these places alone."""
        rows = tuple(tuple(row[place] for place in places) for row in self.rows)
        return replace(self, columns=tuple(self.columns[place] for place in places), rows=rows)


def small_table(caption: str, columns: Iterable[Column], rows: Iterable[tuple[Text, ...]]) -> Table:
    """Return a table in small type."""
    return Table(caption=caption, columns=tuple(columns), rows=tuple(rows), small=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawing by its file name, with the text a screen reader says in its place."""

    name: str
    caption: str
    alt: str


@dataclass(frozen=True, slots=True)
class Number:
    """One of the numbers on the cover."""

    label: str
    value: str
    detail: str
    tone: Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer: the question in the reader's words, the answer in a word, its grounds in paragraphs."""

    question: str
    word: str
    text: tuple[Text, ...]
    tone: Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Statements under short names, one below the other."""

    items: tuple[tuple[str, Text], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Where each section begins; the template knows the pages."""

    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of the cover, side by side."""

    items: tuple[Number, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The sentence that may be quoted alone."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A displayed formula of the template, by name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms with their meanings."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """Points in a list."""

    items: tuple[Text, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A part that this audit cannot fill, printed as missing instead of left out."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Lines for the persons who answer for the report."""

    roles: tuple[str, ...]


Words = Paragraph | Heading | Quote | Formula | Terms | Items | Missing
Block = Words | Table | Figure | Numbers | Verdict | Facts | Contents | Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with its blocks."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 1
