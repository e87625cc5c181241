"""Tables of the pages in docs/: each is a CSV file beside its page, and this command writes it into the page.

    python benchmarks/evidence_tables.py                           writes every marked table of docs/ from its file
    COMMAND | python benchmarks/evidence_tables.py --store FILE    stores the last Markdown table that COMMAND printed as FILE

A page marks a table by the comments `table: FILE` and `end of table`. `table: FILE column=value` shows the rows that have this
value, without that column.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
MARK = re.compile(r"<!-- table: (\S+?)(?: ([^=>]+)=([^>]+))? -->\n.*?<!-- end of table -->", re.DOTALL)


def read_markdown(text: str) -> list[list[str]]:
    """Return the rows of the last Markdown table of a text, the header first.

    Raises:
        SystemExit: there is no table, or a row has another number of cells than the header.
    """
    tables = re.findall(r"^\|.*\|\n\|[-|: ]+\|\n(?:\|.*\|(?:\n|$))*", text, re.MULTILINE)
    if not tables:
        raise SystemExit("no Markdown table was printed")
    header, _, *lines = tables[-1].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in (header, *lines)]
    uneven = [row for row in rows if len(row) != len(rows[0])]
    if uneven:
        raise SystemExit(f"a row of {len(uneven[0])} cells under a header of {len(rows[0])}: {uneven[0]}")
    return rows


def write_csv(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def render(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the header first, as a Markdown table."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def select(rows: Sequence[Sequence[str]], column: str, value: str) -> list[list[str]]:
    """Return the header and the rows with this value in a column, all without that column."""
    place = rows[0].index(column)
    return [[*row[:place], *row[place + 1 :]] for number, row in enumerate(rows) if number == 0 or row[place] == value]


def fill(page: Path) -> str:
    """Return the text of a page with every marked table as its file has it now."""

    def table(mark: re.Match[str]) -> str:
        file, column, value = mark.groups()
        with (page.parent / file).open(encoding="utf-8", newline="") as stored:
            rows = list(csv.reader(stored))
        shown = select(rows, column, value) if column else rows
        return f"{mark[0].splitlines()[0]}\n{render(shown)}\n<!-- end of table -->"

    return MARK.sub(table, page.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=None, help="CSV file for the last table of the standard input")
    options = parser.parse_args()
    if options.store is not None:
        options.store.write_text(write_csv(read_markdown(sys.stdin.read())), encoding="utf-8")
    for page in sorted(DOCS.rglob("*.md")):
        page.write_text(fill(page), encoding="utf-8")


if __name__ == "__main__":
    main()
