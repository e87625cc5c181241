"""Pages with sections from different commands: each replaces its own and leaves the others as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def replace_section(page: Path, title: str, lines: Sequence[str]) -> None:
    """Write lines as the section `## title` of a Markdown page: instead of one of that title, at the end if there is none."""
    text = page.read_text(encoding="utf-8") if page.exists() else f"# {page.stem.capitalize()}\n"
    head, *sections = text.rstrip().split("\n## ")
    titles = [section.partition("\n")[0] for section in sections]
    content = "\n".join([title, "", *lines]).rstrip() + "\n"
    if title in titles:
        sections[titles.index(title)] = content
    else:
        sections.append(content)
    page.write_text("\n\n## ".join([head.rstrip(), *(section.rstrip() for section in sections)]) + "\n", encoding="utf-8")


def read_section(page: Path, title: str) -> list[str]:
    """Return the lines of the section `## title` of a page, without its title."""
    section = page.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2]
    return section.partition("\n## ")[0].strip().split("\n")
