"""The public names: complete, importable, typed, and cheap to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import audit

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", audit.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(audit, name) is not None
    assert name in dir(audit)


def test_type_checkers_read_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse((ROOT / "audit" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    imports = {(node.module, alias.name) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imports == {(module, name) for name, module in audit._HOME.items()}


def test_names_that_are_not_there_say_so() -> None:
    with pytest.raises(AttributeError, match="lower_bund"):
        _ = audit.lower_bund  # type: ignore[attr-defined]


def test_bounds_from_scores_import_no_torch() -> None:
    code = "import sys, audit; audit.lower_bound; print(sorted({'torch', 'scipy.signal', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_wrong_argument_is_an_error_to_a_type_checker(tmp_path: Path) -> None:
    user = tmp_path / "user.py"
    user.write_text(
        "import audit\n"
        "audit.lower_bound([1.0, 2.0], [0.0, 0.5], delta=1e-5)\n"
        "audit.lower_bound([1.0, 2.0], [0.0, 0.5], delta=1e-5, wrong=True)\n"
        "audit.lower_bund\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path), str(user)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    lines = [line for line in done.stdout.splitlines() if "user.py" in line and "error:" in line]
    assert len(lines) == 2 and "user.py:3" in lines[0] and "user.py:4" in lines[1], done.stdout
