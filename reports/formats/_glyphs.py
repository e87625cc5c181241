"""Which characters the document's fonts can show; all others are replaced, and named."""

import functools
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

# noto Serif CJK SC (OFL), cut to common characters; Droid Sans Fallback (Apache License 2.0) for all others
FONTS = Path(__file__).parents[1] / "pages" / "fonts"
LATIN = "Libertinus Serif"
FALLBACK = ("Droid Sans Fallback", "DejaVu Sans Mono")
SERIF = (LATIN, *FALLBACK)
REPLACEMENT = "?"
_DATE = datetime(2026, 1, 1, tzinfo=UTC)


def replace_glyphs(value: Any, lacking: Sequence[str]) -> Any:
    """The same texts, in whatever lists and mappings, with `REPLACEMENT` for each character that is lacking."""
    if isinstance(value, str):
        return "".join(REPLACEMENT if character in lacking else character for character in value)
    if isinstance(value, dict):
        return {key: replace_glyphs(inner, lacking) for key, inner in value.items()}
    return [replace_glyphs(inner, lacking) for inner in value] if isinstance(value, list | tuple) else value


def lacking(content: Any) -> list[str]:
    """The characters of all texts that no font of the document can show, ascending."""
    characters = set(json.dumps(content, ensure_ascii=False)) | _controls(content)
    return sorted(
        character
        for character in characters
        if not (" " <= character <= "~" or character in "\n\t") and not _can_be_set(character)
    )


def name_characters(characters: Sequence[str], limit: int = 8) -> str:
    """Code points in words, `U+1F600, U+0007 and 3 more`."""
    points = [f"U+{ord(character):04X}" for character in characters]
    return ", ".join(points[:limit]) + (f" and {len(points) - limit} more" if len(points) > limit else "")


def _controls(value: Any) -> set[str]:
    """Control characters, which JSON escapes."""
    if isinstance(value, str):
        return {item for item in value if item < " " or item == "\x7f"}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return set().union(*(_controls(item) for item in inner))


# only typst knows which characters it can set in PDF/A, so each is tried
@functools.lru_cache(maxsize=4096)
def _can_be_set(character: str) -> bool:
    typst = import_module("typst")
    fonts = json.dumps(list(SERIF))[1:-1]  # without brackets a list of JSON is one of typst
    page = f'#set document(title: "x")\n#set text(font: ({fonts}))\n#"\\u{{{ord(character):x}}}"'
    options = {"pdf_standards": ["a-3a"], "ignore_system_fonts": True, "font_paths": [str(FONTS)], "timestamp": _DATE}
    try:
        typst.compile(page.encode(), format="pdf", **options)
    except typst.TypstError:
        return False
    return True
