"""Calls of a program by which randomness comes in that is not followed: the system, threads, clocks, other libraries.

Such a program may answer otherwise in a run out of a million, whatever its releases: that a replay never saw it is no proof.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import FrameType
from typing import Any

_FOLLOWED_LIBRARIES = frozenset(("numpy", "scipy", "torch", "opacus", "pandas", "sklearn", "audit", "_distutils_hack"))
_FOLDER = str(Path(__file__).parent)
_WHOLE_MODULE = frozenset[str]()
# names of calls by module; none are all of a module's
_CALLS = {
    "builtins": frozenset(("id",)),
    "posix": frozenset(("open", "urandom", "getrandom", "read", "getpid", "times", "fork", "system")),
    "io": frozenset(("open",)),
    "_thread": frozenset(("start_new_thread",)),
    "datetime": frozenset(("now", "utcnow", "today")),
} | dict.fromkeys(("time", "nt", "_uuid", "_ctypes", "_socket", "_posixsubprocess"), _WHOLE_MODULE)

_SYSTEM = frozenset(("posix.urandom", "posix.getrandom", "nt.urandom"))


def watch_calls(function: Callable[..., Any], calls: set[str]) -> Callable[..., Any]:
    """Return the function, which adds to `calls` those by which other randomness may come in; no debugger sees it run."""

    def note_call(frame: FrameType, event: str, argument: Any) -> None:
        names: set[str] = set()
        if event == "c_call":
            root, name = _root(argument), str(getattr(argument, "__name__", ""))
            if _is_elsewhere(root) or (root in _CALLS and (name in _CALLS[root] or not _CALLS[root])):
                names = {f"{root}.{name}"}
        elif event == "call":
            values = (frame.f_globals.get(name) for name in frame.f_code.co_names)
            roots = {_module(frame), *(str(type(value).__module__).partition(".")[0] for value in values)}
            names = {root for root in roots if _is_elsewhere(root)}
        if names and not _is_known(frame):
            calls.update(names)

    def run(*arguments: Any) -> Any:
        profiler = sys.getprofile()
        sys.setprofile(note_call)
        try:
            result = function(*arguments)
            return list(result) if inspect.isgenerator(result) else result
        finally:
            sys.setprofile(profiler)

    return run


def _is_known(frame: FrameType | None) -> bool:
    """True while a module is loaded or a line is logged, for calls of the recording, which notes what is asked for.

    And for calls of pandas, which holds columns of text in arrays of pyarrow.
    """
    caller = frame
    while caller is not None and _is_elsewhere(_module(caller)):
        caller = caller.f_back
    if caller is not None and _module(caller) == "pandas":
        return True
    while frame is not None and frame.f_code.co_filename != __file__:  # up to the program's own first line
        caller = frame.f_back
        if "importlib" in frame.f_code.co_filename or frame.f_globals.get("__name__") == "logging":
            return True
        if frame.f_code.co_filename.startswith(_FOLDER):
            name = str(caller.f_globals.get("__name__")) if caller is not None else ""
            return name.partition(".")[0] not in sys.stdlib_module_names or name.startswith("secrets")
        frame = caller
    return False


def _module(frame: FrameType) -> str:
    """Return the first part of the name of a frame's module."""
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _root(call: Any) -> str:
    """Return the first part of the module of what is called, that of its object for a method."""
    owner = getattr(call, "__self__", None)
    module = getattr(call, "__module__", None)
    if not isinstance(module, str):
        module = owner.__module__ if isinstance(owner, type) else type(owner).__module__
    return str(module).partition(".")[0]


def _is_elsewhere(root: str) -> bool:
    """True for installed libraries other than those that are followed, and for the door to compiled code."""
    if root in _FOLLOWED_LIBRARIES or (root in sys.stdlib_module_names and root not in ("ctypes", "_ctypes")):
        return False
    return root in ("ctypes", "_ctypes") or "site-packages" in str(getattr(sys.modules.get(root), "__file__", ""))


def find_hidden_sources(calls: set[str]) -> list[str]:
    """Return the calls, and libraries that hold compiled code, with randomness that no replay sees."""
    libraries = {call.partition(".")[0] for call in calls}
    return sorted(_SYSTEM & calls) + sorted(f"compiled code of {name}" for name in libraries if _is_compiled(name))


@lru_cache(maxsize=256)
def _is_compiled(root: str) -> bool:
    place = getattr(sys.modules.get(root), "__file__", None)
    if not _is_elsewhere(root) or place is None:
        return root in ("ctypes", "_ctypes")
    if not Path(place).name.startswith("__init__."):
        return str(place).endswith(tuple(EXTENSION_SUFFIXES))
    endings = (*EXTENSION_SUFFIXES, ".so", ".dylib", ".dll")
    return any(file.name.endswith(endings) for file in Path(place).parent.rglob("*.*"))
