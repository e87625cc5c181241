"""How plainly the code speaks, as rates that must not rise: docstrings, names and comments of each package."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RARE_PHRASES = re.compile(
    r"\b(besides|nobody|somebody|anybody|one's own|h[eo]lds? against|held against|in the place of|hears?|hence|thereby|goes on"
    r"|of others|whose|stands?|lies?|told|tells?|of its own|of their own|at all|by itself|by themselves|that is there|what it"
    r"|what they)\b",
    re.IGNORECASE,
)
VAGUE_NAMES = {
    *("one", "ones", "other", "others", "own", "rest", "whole", "nobody", "somebody"),
    *("found", "made", "kept", "said", "asked", "seen", "told", "taken", "given", "left"),
}


@dataclass(frozen=True)
class Rates:
    """Rates per 1000 docstring words (where, conditions, phrases), names (vague) and functions (of), and comments per line.

    `conditions` and `comments` are lower limits, the others upper limits.
    """

    where: float
    conditions: float
    phrases: float
    vague: float
    of: float
    comments: float


# what each folder reached; lower a limit if a change improves on it, never raise one
LIMITS = {
    "audit": Rates(where=2.5, conditions=6.0, phrases=1.0, vague=3.5, of=8.0, comments=0.018),
    "attacks": Rates(where=2.5, conditions=6.0, phrases=1.0, vague=3.5, of=2.0, comments=0.020),
    "reports": Rates(where=2.5, conditions=6.0, phrases=1.0, vague=3.5, of=8.0, comments=0.015),
    "tests": Rates(where=2.5, conditions=5.9, phrases=1.0, vague=3.5, of=155.0, comments=0.010),
    "benchmarks": Rates(where=2.5, conditions=6.0, phrases=1.0, vague=3.5, of=8.0, comments=0.011),
}


def measure(folder: str) -> Rates:
    words = where = conditions = phrases = names = vague = functions = named_of = lines = comments = 0
    for path in sorted((ROOT / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                words += len(re.findall(r"[A-Za-z']+", text))
                where += len(re.findall(r"\bwhere\b", text, re.IGNORECASE))
                conditions += len(re.findall(r"\b(?:if|when)\b", text, re.IGNORECASE))
                phrases += len(RARE_PHRASES.findall(text))
            name = read_name(node)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions += 1
                named_of += "of" in node.name.strip("_").split("_")
            if name is not None:
                names += 1
                vague += name.strip("_") in VAGUE_NAMES
        lines += source.count("\n")
        comments += sum(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(source).readline))
    return Rates(
        where=1000 * where / words,
        conditions=1000 * conditions / words,
        phrases=1000 * phrases / words,
        vague=1000 * vague / names,
        of=1000 * named_of / functions,
        comments=comments / lines,
    )


def read_name(node: ast.AST) -> str | None:
    """Return the name that a node defines or reads; None if it has none."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name
    if isinstance(node, ast.ClassDef):
        return node.name.lower()
    if isinstance(node, ast.Name):
        return node.id
    return node.arg if isinstance(node, ast.arg) else None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("folder", LIMITS)
def test_rates_stay_within_their_limits(folder: str) -> None:
    result, limits = measure(folder), LIMITS[folder]
    above = [name for name in ("where", "phrases", "vague", "of") if getattr(result, name) > getattr(limits, name)]
    below = [name for name in ("conditions", "comments") if getattr(result, name) < getattr(limits, name)]
    assert (above, below) == ([], []), result


def test_the_ruler_counts_what_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample").mkdir()
    lines = ['"""Return it where it lies, if asked."""', "def size_of(found):", "    return found  # a comment", ""]
    (tmp_path / "sample" / "a.py").write_text("\n".join(lines))
    monkeypatch.setitem(measure.__globals__, "ROOT", tmp_path)
    rates = measure("sample")
    once = 1000 / 7  # of seven words
    assert rates == Rates(where=once, conditions=once, phrases=once, vague=1000 * 2 / 3, of=1000.0, comments=1 / 3)
