"""The witness of a replay as a test that fails, and the line at which a program is."""

from __future__ import annotations

import inspect
import operator
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from audit.replays.check import PairResult

_LINE = re.compile(r"((?<![^\s(])(?:[A-Za-z]:\\|/)[^:]*?\.py|[^\s()]+\.py):(\d+)")  # in a reason; whole paths may hold spaces


def definition(function: Callable[..., Any]) -> str:
    """Return `file:line` at which a program is defined, nothing if it has no code of Python."""
    part = _innermost(function)
    code = getattr(part if hasattr(part, "__code__") else getattr(part, "__func__", type(part).__call__), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if inspect.iscode(code) else ""


def _innermost(function: Callable[..., Any]) -> Any:
    """Return what partials and wrappers call in the end."""
    part: Any = function
    while hasattr(part, "func") or hasattr(part, "__wrapped__"):
        part = getattr(part, "func", None) or part.__wrapped__
    return part


def line(reason: str, otherwise: str) -> str:
    """Return the `file:line` that a reason names, or else another."""
    match = _LINE.search(reason)
    return f"{match[1]}:{match[2]}" if match else otherwise


def import_name(function: Callable[..., Any]) -> tuple[str, str] | None:
    """Return `module:name` by which a program is imported, and the folder that its import starts from; None if by no name."""
    module = sys.modules.get(getattr(_innermost(function), "__module__", ""))
    if module is None or (file := getattr(module, "__file__", None)) is None:
        return None
    path = getattr(function, "__qualname__", "")
    try:
        is_named = operator.attrgetter(path)(module) == function  # a method of a class is another object each time
    except AttributeError:
        is_named = False
    if not is_named:
        # a name of `__main__` may be one that no import of it gives
        names = [] if module.__name__ == "__main__" else [name for name, item in vars(module).items() if item is function]
        if not names:
            return None
        path = names[0]
    spec, source = module.__spec__, Path(file).resolve()
    name = spec.name if spec is not None else source.stem  # a script that is run as `__main__`
    return f"{name}:{path}", str(source.parents[name.count(".") + (source.stem == "__init__")])


def failing_test(pair: PairResult, program: str, place: str, folder: str | None, claim: str) -> str:
    """Return a test that fails as long as a pair refutes the claim of a program.

    Args:
        program: `module:function`.
        place: `file:line` of it.
        folder: from which the module is imported; None if the program cannot be.
        claim: arguments of `audit.replay`.
    """
    module, _, path = program.partition(":")
    lines = ["import sys", "", "from numpy import array, inf, nan  # noqa: F401", "", "import audit", ""]
    if folder is None:
        text = f"put the program here: {program} ({place}) cannot be imported"
        lines += ["", "def program(data, rng):", f"    raise NotImplementedError({text!r})", ""]
        path, name = "program", "program"
    else:
        lines += [f"sys.path.append({folder!r})", f"from {module} import {path.partition('.')[0]}  # noqa: E402"]
        name = path.rpartition(".")[2]
    return "\n".join(
        [
            f'"""{pair.name}: {_one_line(pair.reason)}"""',
            "",
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
