"""What a run leaves behind: its result, the data it was given, globals and closures, files, printed lines, log records."""

import contextlib
import copy
import dataclasses
import io
import logging
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from audit.replays.noisy import NoisyArray

_SKIP = (
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    type,
    types.MethodType,
    np.random.Generator,
    np.random.RandomState,
    logging.Logger,  # its records are watched; it leads to the loggers and handlers of the whole process
    logging.Handler,
)
_DEEPEST = 12
_files: list[dict[str, int]] = []  # of each run that is under way: written files and their size before


def _watch_files(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not _files or not isinstance(args[0], str | os.PathLike) or args[1] is None:
        return
    if set(str(args[1])) & set("wax+"):
        path = os.path.abspath(args[0])
        size = os.path.getsize(path) if "a" in str(args[1]) and os.path.exists(path) else 0
        _files[-1].setdefault(path, size)


sys.addaudithook(_watch_files)


def leaves(value: Any, path: str = "", depth: int = 0, ancestors: frozenset[int] = frozenset()) -> Iterator[tuple[str, Any]]:
    """Yield `(path, atom)` for all that a value holds; an atom is bytes, text or a float. Noisy numbers are released on the
    way."""
    if isinstance(value, NoisyArray):
        value = value.release() if value.ndim else np.float64(value.release())
    if isinstance(value, bool | int | str | bytes | np.bool_ | np.integer | type(None)):
        yield path, (type(value).__name__ if isinstance(value, bool | str | bytes | type(None)) else "int", str(value))
    elif isinstance(value, float | np.floating):
        yield path, float(value)
    elif id(value) in ancestors or depth > _DEEPEST:
        yield path, "again"
    elif isinstance(value, np.ndarray):
        yield f"{path}.shape", str((value.shape, value.dtype.kind))
        parts = value.ravel().tolist()
        for i, part in enumerate(parts):
            yield from leaves(part, f"{path}[{i}]", depth + 1, ancestors | {id(value)})
    else:
        yield from _leaves_inside(value, path, depth + 1, ancestors | {id(value)})


def _leaves_inside(value: Any, path: str, depth: int, ancestors: frozenset[int]) -> Iterator[tuple[str, Any]]:  # noqa: PLR0912 (one arm a kind)
    if isinstance(value, dict):
        yield f"{path}.keys", repr([str(key) for key in value])
        for key, part in list(value.items()):
            yield from leaves(part, f"{path}[{key!r}]", depth, ancestors)
    elif isinstance(value, set | frozenset):
        yield path, repr(sorted(map(repr, value)))
    elif isinstance(value, list | tuple) or (hasattr(value, "popleft") and hasattr(value, "__len__")):
        yield f"{path}.length", str(len(value))
        for i, part in enumerate(value):
            yield from leaves(part, f"{path}[{i}]", depth, ancestors)
    elif hasattr(value, "to_numpy") and hasattr(value, "index"):  # a table of pandas, or a column
        yield f"{path}.labels", repr((list(value.index), list(getattr(value, "columns", []))))
        yield from leaves(value.to_numpy(), path, depth, ancestors)
    elif isinstance(value, io.StringIO | io.BytesIO):
        yield path, repr(value.getvalue())
    elif isinstance(value, Iterator):
        yield path, type(value).__name__
    elif isinstance(value, complex):
        yield from leaves((value.real, value.imag), path, depth, ancestors)
    elif hasattr(value, "detach") and hasattr(value, "numpy"):
        yield from leaves(value.detach().cpu().numpy(), path, depth, ancestors)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), f"{path}.{field.name}", depth, ancestors)
    elif isinstance(value, _SKIP):
        yield path, type(value).__name__
    elif hasattr(value, "__dict__"):
        for name, part in list(vars(value).items()):
            yield from leaves(part, f"{path}.{name}", depth, ancestors)
    else:
        yield path, type(value).__name__


class Surroundings:
    """State outside of a program that it can change: module globals, closure, defaults, the object it is a method of."""

    def __init__(self, function: Any) -> None:
        self.places: dict[str, Any] = {}
        inner = getattr(function, "__func__", function)
        for name, item in sorted(_reached_globals(inner).items()):
            if _is_state(item, name):
                self.places[f"global {name}"] = item
        self.names = getattr(inner, "__globals__", {})
        closure = getattr(inner, "__closure__", None) or ()
        for name, cell in zip(getattr(getattr(inner, "__code__", None), "co_freevars", ()), closure, strict=False):
            with contextlib.suppress(ValueError):
                if _is_state(cell.cell_contents, name):
                    self.places[f"closure {name}"] = cell.cell_contents
        for i, item in enumerate(getattr(inner, "__defaults__", None) or ()):
            if _is_state(item, ""):
                self.places[f"default {i}"] = item
        owner = getattr(function, "__self__", None if inner is not function else function)
        if owner is not None and hasattr(owner, "__dict__") and not isinstance(owner, _SKIP):
            self.places["self"] = owner
        if hasattr(function, "__dict__") and isinstance(function, types.FunctionType):
            self.attributes: dict[str, Any] = function.__dict__
            self.places["function attributes"] = self.attributes
        self.before = {name: _copy(item) for name, item in self.places.items()}

    def restore(self) -> None:
        """Put the state back that was there at first, in place."""
        for name, item in self.places.items():
            _put_back(item, self.before[name])
        for name in self.before:
            if name.startswith("global ") and self.names.get(name[7:]) is not self.places[name]:
                self.names[name[7:]] = self.places[name]

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Yield the atoms of the state now."""
        for name, item in self.places.items():
            yield from leaves(self.names.get(name[7:]) if name.startswith("global ") else item, name)


def _reached_globals(function: Any) -> dict[str, Any]:
    """Return the globals of its module that a function names, or a function of that module that it names, and so on."""
    names: dict[str, Any] = getattr(function, "__globals__", {})
    objects: dict[str, Any] = {}
    codes = [getattr(function, "__code__", None), *(getattr(part, "__code__", None) for part in _closure_functions(function))]
    while codes:
        code = codes.pop()
        if code is None:
            continue
        codes += [part for part in code.co_consts if isinstance(part, types.CodeType)]
        for name in code.co_names:
            if name in names and name not in objects:
                item: Any = names[name]
                objects[name] = item
                if getattr(item, "__globals__", None) is names:
                    codes += [getattr(item, "__code__", None)]
                    codes += [getattr(part, "__code__", None) for part in _closure_functions(item)]
    return objects


def _closure_functions(function: Any) -> list[Any]:
    parts = []
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):
            if isinstance(cell.cell_contents, types.FunctionType):
                parts.append(cell.cell_contents)
    return parts


def _is_state(item: Any, name: str) -> bool:
    if name.startswith("__") or isinstance(item, _SKIP) or callable(item) or type(item).__module__ in ("typing", "__future__"):
        return False
    if isinstance(item, list | dict | set) and len(item) > 10_000:
        return False
    return isinstance(item, list | dict | set | bytearray | np.ndarray | int | float | str | io.StringIO) or hasattr(
        item, "__dict__"
    )


def _copy(item: Any) -> Any:
    try:
        return copy.deepcopy(item)
    except Exception:  # noqa: BLE001  what cannot be copied cannot be put back: it is compared as it is
        return item


def _put_back(item: Any, before: Any) -> None:
    if item is before:
        return
    if isinstance(item, list):
        item[:] = copy.deepcopy(before)
    elif isinstance(item, dict | set):
        item.clear()
        item.update(copy.deepcopy(before))
    elif isinstance(item, np.ndarray) and item.flags.writeable:
        item[...] = before
    elif isinstance(item, io.StringIO):
        item.seek(0)
        item.truncate()
        item.write(before.getvalue())
    elif hasattr(item, "__dict__") and not isinstance(item, _SKIP):
        vars(item).clear()
        vars(item).update(copy.deepcopy(vars(before)))


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=logging.NOTSET)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextlib.contextmanager
def watch() -> Iterator[dict[str, Any]]:
    """A scope that keeps printed lines, log records, written files and the environment; they are in the table afterwards."""
    table: dict[str, Any] = {}
    output, handler, files = io.StringIO(), _Records(), dict[str, int]()
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    _files.append(files)
    environment = dict(os.environ)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
            yield table
    finally:
        _files.pop()
        root.removeHandler(handler)
        root.setLevel(level)
        changes = {name: text for name, text in os.environ.items() if environment.get(name) != text}
        os.environ.clear()
        os.environ.update(environment)
    table |= {f"environment {name}": text for name, text in changes.items()}
    table["printed"], table["logged"] = output.getvalue(), handler.lines
    for path, size in files.items():
        with contextlib.suppress(OSError), open(path, "rb") as stream:
            stream.seek(size)
            table[f"file {os.path.basename(path)}"] = stream.read()
