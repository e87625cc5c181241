"""The witness of a replay as a test that fails, and the line at which a program is."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from audit.replays.check import PairResult

_LINE = re.compile(r"([^\s()]+\.py):(\d+)")  # in a reason


def definition(function: Callable[..., Any]) -> str:
    """Return `file:line` at which a program is defined, nothing if it has no code of Python."""
    part: Any = function
    while hasattr(part, "func") or hasattr(part, "__wrapped__"):
        part = getattr(part, "func", None) or part.__wrapped__
    code = getattr(part if hasattr(part, "__code__") else getattr(part, "__func__", type(part).__call__), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if inspect.iscode(code) else ""


def line(reason: str, otherwise: str) -> str:
    """Return the `file:line` that a reason names, or else another."""
    match = _LINE.search(reason)
    return f"{match[1]}:{match[2]}" if match else otherwise


def failing_test(pair: PairResult, program: str, place: str, claim: str) -> str:
    """Return a test that fails as long as a pair refutes the claim of a program.

    Args:
        program: `module:function`.
        place: `file:line` of it.
        claim: arguments of `audit.replay`.
    """
    module, _, path = program.partition(":")
    name = path.rpartition(".")[2].strip("<>")
    lines = [f"from {module} import {path.partition('.')[0]}"]
    if "<" in path:
        text = f"put the program here: {path} of {module} ({place}) cannot be imported"
        lines, path = ["", "", f"def {name}(data, rng):", f"    raise NotImplementedError({text!r})", ""], name
    return "\n".join(
        [
            f'"""{pair.name}: {_one_line(pair.reason)}"""',
            "",
            "from numpy import array, inf, nan  # noqa: F401",
            "",
            "import audit",
            *lines,
            "",
            f"DATA = {literal(pair.data)}",
            f"NEIGHBOUR = {literal(pair.neighbour)}",
            "",
            "",
            f"def test_{name}_keeps_its_claim() -> None:",
            f"    report = audit.replay({path}, [(DATA, NEIGHBOUR)], {claim})",
            "    assert report.exit_code == 0, str(report)",
            "",
        ]
    )


def _one_line(text: str) -> str:
    return " ".join(text.replace("\\", "/").replace('"', "'").split())


def literal(data: Any) -> str:
    """Return Python code of a data set, over the names `array`, `inf` and `nan`; of other types their pickled bytes."""
    text = _literal(data)
    return f"__import__('pickle').loads({pickle.dumps(data)!r})" if text is None else text


def _literal(data: Any) -> str | None:
    if isinstance(data, np.ndarray):
        kind = data.dtype.str
        return f"array({data.tolist()!r}, dtype={kind!r}).reshape({data.shape!r})" if data.dtype.kind in "biufUS" else None
    if type(data).__module__ == "torch" and hasattr(data, "detach"):
        numbers, torch = data.detach().cpu(), "__import__('torch')"
        kind = str(numbers.dtype).removeprefix("torch.")
        return f"{torch}.tensor({numbers.tolist()!r}, dtype={torch}.{kind}).reshape({tuple(numbers.shape)!r})"
    if hasattr(data, "iloc"):
        columns = data.to_dict("list") if hasattr(data, "columns") else data.tolist()
        text = _literal(columns)
        # a table with labels or types of its own is not what its columns give, so it has no literal
        return f"__import__('pandas').{type(data).__name__}({text})" if text and type(data)(columns).equals(data) else None
    if isinstance(data, dict):
        parts = [(_literal(key), _literal(part)) for key, part in data.items()]
        return None if any(None in pair for pair in parts) else "{" + ", ".join(f"{key}: {part}" for key, part in parts) + "}"
    # not `isinstance`: a subclass would be written as what it is not
    if type(data) in (list, tuple):
        items = [_literal(part) for part in data]
        inside = ", ".join(item for item in items if item is not None)
        whole = f"[{inside}]" if isinstance(data, list) else f"({inside}{',' if len(data) == 1 else ''})"
        return None if None in items else whole
    item = data.item() if isinstance(data, np.generic) else data
    return repr(item) if item is None or type(item) in (bool, int, float, complex, str, bytes) else None
