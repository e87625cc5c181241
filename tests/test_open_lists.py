"""No list of plug-ins is beside their folder: the folder is the list, so that a new file is all that a new one takes."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from audit import plugins

ROOT = Path(__file__).resolve().parents[1]
MOST = 2  # names of one kind in one literal: a default and its alternative are no list

# where three names or more are together for another reason: what that is
REASONS = {
    "audit/core/results.py": "the formats that are written where none is named",
    "audit/accounting/subjects.py": "the accountants that are asked where none is named: a choice, not all there are",
    "audit/bounds/simulation_costs.py": "measured costs of a simulated audit, by estimator: others have an assumed cost",
}


@functools.cache
def literals(path: Path) -> tuple[tuple[int, frozenset[str]], ...]:
    """Each tuple, list, set or dict of a file, or annotation `Literal[...]`, that holds texts, with its line."""
    result = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                texts = elements
            case ast.Dict(keys=keys):
                texts = [key for key in keys if key is not None]
            case _:
                continue
        values = {text.value for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)}
        result.append((node.lineno, frozenset(values)))
    return tuple(result)


@functools.cache
def names_by_kind(kind: str) -> frozenset[str]:
    return frozenset(plugins.names(plugins.FOLDERS[kind]))


def copies(path: Path, kind: str) -> list[str]:
    """Literals of a file that name more than `MOST` plug-ins of a kind, and little else."""
    names = names_by_kind(kind)
    return [
        f"{path}:{line}: {', '.join(sorted(texts & names))} ({kind})"
        for line, texts in literals(path)
        if len(texts & names) > MOST and 2 * len(texts & names) > len(texts)
    ]


def test_the_folder_is_the_only_list() -> None:
    paths = [path for package in ("audit", "attacks", "reports") for path in sorted((ROOT / package).rglob("*.py"))]
    offenders = []
    for kind, package in sorted(plugins.FOLDERS.items()):
        folder = ROOT / package.replace(".", "/")
        for path in paths:
            if not path.is_relative_to(folder) and str(path.relative_to(ROOT)) not in REASONS:
                offenders += copies(path, kind)
    assert not offenders, "lists that a new plug-in would have to enter; read plugins.names(...) there:\n" + "\n".join(
        offenders
    )


def test_a_copy_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "copy.py"
    path.write_text('KINDS = ("sgd", "adam", "adamw")\n')
    assert copies(path, "optimizers") and not copies(path, "scorers")


def test_every_reason_is_in_use() -> None:
    assert all(any(copies(ROOT / path, kind) for kind in plugins.FOLDERS) for path in REASONS)
