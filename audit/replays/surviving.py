"""What a run leaves behind: its result, the data it was given, globals and closures, files, printed lines, log records."""

import contextlib
import copy
import dataclasses
import io
import itertools
import logging
import os
import random
import sys
import types
import warnings
from collections.abc import Collection, Iterator
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
    random.Random,
    logging.Logger,  # its records are watched; it leads to the loggers and handlers of the whole process
    logging.Handler,
)
_DEEPEST = 12
_STANDARD, _PACKAGE = os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(__file__))
_MOST_ITEMS = 10_000  # of an iterator in the result
_files: list[dict[str, int]] = []  # of each run that is under way: written files and their size before


def _watch_files(event: str, args: tuple[Any, ...]) -> None:
    if not _files or event not in ("open", "sqlite3.connect") or not isinstance(args[0], str | os.PathLike):
        return
    mode = "w" if event != "open" else args[1] or ("+" if args[2] & (os.O_WRONLY | os.O_RDWR) else "")
    if set(str(mode)) & set("wax+"):
        path = os.path.abspath(args[0])
        size = os.path.getsize(path) if "a" in str(mode) and os.path.exists(path) else 0
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
    elif isinstance(value, Iterator) and path.startswith("returned"):
        yield from leaves(list(itertools.islice(value, _MOST_ITEMS)), path, depth, ancestors)
    elif isinstance(value, Iterator):
        yield path, type(value).__name__
    elif isinstance(value, complex):
        yield from leaves((value.real, value.imag), path, depth, ancestors)
    elif hasattr(value, "detach") and hasattr(value, "numpy"):
        yield from leaves(value.detach().cpu().numpy(), path, depth, ancestors)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), f"{path}.{field.name}", depth, ancestors)
    elif isinstance(value, types.FunctionType | types.MethodType) and path.startswith("returned"):
        parts = getattr(value, "__self__", None), value.__defaults__, [_content(cell) for cell in value.__closure__ or ()]
        yield from leaves(parts, path, depth, ancestors)
    elif isinstance(value, _SKIP):
        yield path, type(value).__name__
    else:
        yield path, type(value).__name__
        for name, part in list(getattr(value, "__dict__", {}).items()):
            yield from leaves(part, f"{path}.{name}", depth, ancestors)
        yield from leaves(_state_beside(value), f"{path}.state", depth, ancestors)


def _state_beside(value: Any) -> Any:
    """Return what a value holds that is no attribute of it: slots, the inside of types of other languages."""
    if isinstance(value, Collection) and not hasattr(value, "__dict__"):
        return list(value)
    kind: Any = type(value)
    if kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__ and hasattr(value, "__dict__"):
        slots = (name for base in kind.__mro__ for name in np.atleast_1d(vars(base).get("__slots__", ())).tolist())
        return [getattr(value, name, None) for name in slots if name not in ("__dict__", "__weakref__")]
    try:
        reduction = value.__reduce_ex__(2)
    except Exception:  # noqa: BLE001  what cannot be written to a file is known by its type alone
        return None
    return reduction if isinstance(reduction, str) else reduction[1:3]


def _content(cell: Any) -> Any:
    with contextlib.suppress(ValueError):  # a cell that nothing has been put into
        return cell.cell_contents
    return None


class Surroundings:
    """State outside of a program that it can change: globals and classes of the user's code, closure, defaults, its object.

    Attributes:
        constants: numbers and texts in the code of the program, at which its decisions may flip.
    """

    def __init__(self, function: Any) -> None:
        inner = getattr(function, "__func__", function)
        self.constants: list[Any] = []
        self.owners: dict[str, tuple[Any, str]] = {}  # where each is kept: in a dictionary, a class or a cell
        items: dict[str, Any] = {}
        for owner, name, item in _find_state(function, self.constants):
            if _is_state(item, name):
                kind = "class" if isinstance(owner, type) else "closure" if isinstance(owner, types.CellType) else "global"
                label = f"{owner.__name__}.{name}" if isinstance(owner, type) else name
                self.owners[f"{kind} {label}"] = owner, "cell_contents" if kind == "closure" else name
                items[f"{kind} {label}"] = item
        for i, item in enumerate(getattr(inner, "__defaults__", None) or ()):
            if _is_state(item, ""):
                items[f"default {i}"] = item
        owner = getattr(function, "__self__", None if inner is not function else function)
        if owner is not None and hasattr(owner, "__dict__") and not isinstance(owner, _SKIP):
            items["self"] = owner
        if isinstance(function, types.FunctionType):
            items["function attributes"] = function.__dict__
        self.before = {label: (item, _copy(item)) for label, item in items.items()}

    def restore(self) -> None:
        """Put the state back that was there at first, in place."""
        for label, (item, backup) in self.before.items():
            _put_back(item, backup)
            if label in self.owners and self._current(label) is not item:
                owner, name = self.owners[label]
                if not isinstance(owner, dict):
                    setattr(owner, name, item)
                elif item is _ABSENT:
                    owner.pop(name, None)
                else:
                    owner[name] = item

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Yield the atoms of the state now."""
        for label in self.before:
            item = self._current(label)
            if item is not _ABSENT and not (label in self.owners and (isinstance(item, _SKIP) or callable(item))):
                yield from leaves(item, label)

    def _current(self, label: str) -> Any:
        if label not in self.owners:
            return self.before[label][0]
        owner, name = self.owners[label]
        return owner.get(name, _ABSENT) if isinstance(owner, dict) else getattr(owner, name, _ABSENT)


_ABSENT = object()  # a name that a program may set


def _find_state(function: Any, constants: list[Any]) -> Iterator[tuple[Any, str, Any]]:
    """Yield owner, name and content of the globals, class attributes and cells that a function of the user's code can reach."""
    functions: list[Any] = [function]
    history = set[Any]()
    while functions:
        part: Any = functions.pop()
        part = getattr(part, "func", getattr(part, "__func__", part))  # of a partial function, of a method
        part = part if hasattr(part, "__code__") or isinstance(part, type) else getattr(type(part), "__call__", None)  # noqa: B004
        codes: list[Any] = [getattr(part, "__code__", None)]
        if codes[0] is None or codes[0] in history or not is_own(codes[0].co_filename):
            continue
        history.add(codes[0])
        for name, cell in zip(codes[0].co_freevars, part.__closure__ or (), strict=True):
            functions.append(_content(cell))
            yield cell, name, _content(cell)
        names = part.__globals__
        for code in codes:
            codes += [item for item in code.co_consts if isinstance(item, types.CodeType)]
            constants += [item for item in code.co_consts if type(item) in (int, float, str) and item not in constants]
            for name in code.co_names:
                if (id(names), name) in history:
                    continue
                history.add((id(names), name))
                item = names.get(name, _ABSENT)
                yield names, name, item
                if isinstance(item, type) and is_own(getattr(sys.modules.get(item.__module__), "__file__", None) or ""):
                    functions += vars(item).values()
                    yield from ((item, key, value) for key, value in vars(item).items() if not hasattr(value, "__get__"))
                functions.append(item)


def is_own(file: str) -> bool:
    """True for the user's code, not that of an installed package."""
    return "site-packages" not in file and not file.startswith((_STANDARD, _PACKAGE))


def _is_state(item: Any, name: str) -> bool:
    if name.startswith("__") or isinstance(item, _SKIP) or callable(item) or type(item).__module__ in ("typing", "__future__"):
        return False
    return not (isinstance(item, list | dict | set) and len(item) > _MOST_ITEMS)


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
    output, errors, handler, files = io.StringIO(), io.StringIO(), _Records(), dict[str, int]()
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    _files.append(files)
    environment = dict(os.environ)
    try:
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
            warnings.catch_warnings(record=True) as messages,
        ):
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
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
    table["errors"] = [line for line in errors.getvalue().splitlines() if "it/s" not in line]  # bars of progress tell times
    table["warnings"] = [str(part.message) for part in messages if part.category is UserWarning and is_own(part.filename)]
    for path, size in files.items():
        with contextlib.suppress(OSError), open(path, "rb") as stream:
            stream.seek(size)
            table[f"file {os.path.basename(path)}"] = stream.read()
