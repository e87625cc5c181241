"""A watcher that sees every file written and every process started, in this process and by its children."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.truncate",
    "shutil.copyfile",
}
PROCESSES = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn"}
NETWORK = {"socket.connect", "socket.bind"}
_active: list[list[str]] = []
_allowed: list[Path] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & WRITING and _outside(path) and not os.path.isdir(path):
            _active[-1].append(f"open {os.fsdecode(path)}")  # a folder represents a temporary file without a name
    elif event in CHANGES and any(_outside(item) for item in arguments):
        _active[-1].append(f"{event} {arguments}")
    elif event in PROCESSES and not _ours(arguments):
        _active[-1].append(f"{event} {arguments[:2]}")
    elif event in NETWORK:
        _active[-1].append(f"{event} {arguments}")


sys.addaudithook(_hook)


def _outside(path: Any) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    place = Path(os.path.abspath(os.fsdecode(path)))
    return place != Path(os.devnull) and not any(place.is_relative_to(item) for item in _allowed)


def _ours(arguments: tuple[Any, ...]) -> bool:
    """The worker that a model runs in, and the question for the commit of the checkout."""
    command = list(arguments[1]) if len(arguments) > 1 and isinstance(arguments[1], list | tuple) else []
    return command[:4] == [sys.executable, "-P", "-m", "audit.core.confined.worker"] or command[:1] == ["git"]


OTHERS = (".git", ".venv", ".hypothesis", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache")
"""Folders that editors, other tests and Python itself change meanwhile; the hook sees what the audit writes there."""


@contextmanager
def watched(*allowed: Path) -> Iterator[None]:
    """A scope in which nothing may be written outside of the given folders, and no process started but the audit's own.

    The trees around those folders are compared as well, which sees what a child writes.
    """
    roots = {place.parent for place in allowed} | {Path.cwd()}
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a first import is no writing of the audit's
    result: list[str] = []
    before = _tree(roots, allowed)
    _allowed.extend(allowed)
    _active.append(result)
    try:
        yield
    finally:
        sys.dont_write_bytecode = bytecode
        _active.pop()
        del _allowed[len(_allowed) - len(allowed) :]
    changed = sorted(set(_tree(roots, allowed).items()) ^ set(before.items()))
    assert not result, f"outside of {allowed}: {result}"
    assert not changed, f"files changed outside of {allowed}: {changed}"


def _tree(roots: set[Path], allowed: tuple[Path, ...]) -> dict[str, tuple[int, int]]:
    states = {}
    for root in roots:
        for folder, inner, names in os.walk(root):
            inner[:] = [name for name in inner if name not in OTHERS]
            for path in (Path(folder, name) for name in names):
                if path.is_file() and not any(path.is_relative_to(place) for place in allowed):
                    state = path.stat()
                    states[str(path)] = (state.st_size, state.st_mtime_ns)
    return states
