"""Error messages are plain English: none of the turns of phrase that a reader with another first language stumbles over."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from audit.core import errors

ROOT = Path(__file__).resolve().parents[1]
ERRORS = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.AuditError)}
QUAINT = re.compile(
    r"(?<!there )\b(is|are) no\b|\bgo(es)? on\b|\bdear\b|\bbesides\b|\bwho(so)?ever\b|\b(some|no)body\b|\bone's own\b"
    r"|\bhence\b|\bupon\b|\bin the open\b|\bit be\b",
    re.IGNORECASE,
)


def messages() -> Iterator[tuple[str, str]]:
    """Place and text of every error that is raised with a text, values of f-strings left out."""
    for package in ("audit", "attacks", "reports"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS and node.args:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text_of(node.args[0])


def text_of(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "..." for part in parts)


def test_messages_are_plain() -> None:
    texts = list(messages())
    assert len(texts) > 400
    assert [f"{place}: {text}" for place, text in texts if QUAINT.search(text)] == []


def test_the_pattern_finds_what_it_is_for() -> None:
    assert QUAINT.search("'a.npz' is no npz file")
    assert QUAINT.search("go on with it by --resume")
    assert not QUAINT.search("there is no edition 'x'; choose internal or external")


def test_each_line_is_printed_by_itself() -> None:
    """`print_plain` escapes line breaks, since third-party text may hold some."""
    for path in sorted((ROOT / "audit" / "cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print_plain":
                texts = [value for value in node.args if not isinstance(value, ast.Starred)]
                breaks = [
                    part.lineno
                    for text in texts
                    for part in ast.walk(text)
                    if getattr(part, "value", None) and "\n" in str(part.value)
                ]
                assert breaks == [], f"{path.relative_to(ROOT)}: lines {breaks}; give each line as an argument"
