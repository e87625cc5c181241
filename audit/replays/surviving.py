"""What a run leaves behind: its result, the data it was given, files, printed lines, log records, warnings, the environment."""

import atexit
import contextlib
import functools
import gc
import hashlib
import io
import itertools
import linecache
import logging
import os
import random
import re
import signal
import sys
import threading
import types
import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from unittest import mock

import numpy as np

from audit.replays import recording as recordings
from audit.replays.noisy import NoisyArray

SKIP: tuple[type, ...] = (
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    type,
    types.MethodType,
    types.CodeType,
    type(threading.Lock()),
    type(threading.RLock()),
    np.random.Generator,
    np.random.RandomState,
    random.Random,
    logging.Logger,  # its records are watched; it leads to the loggers and handlers of the whole process
    logging.Handler,
)
_DEEPEST = 12
_STANDARD, _PACKAGE = os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(__file__))
MEMORY = "kept"  # begins the path of what a program newly put somewhere: of functions, all that they hold
MOST_ITEMS = 10_000  # of an iterator in the result, of a container that is copied
_files: list[dict[str, int]] = []  # of each run that is under way: written files and their size before
_effects: list[list[str]] = []  # and what else it did to the system
_EFFECTS = re.compile(
    r"os\.(mkdir|rename|remove|rmdir|link|symlink|truncate|chmod|chown|utime|chdir|putenv|unsetenv|system|exec|posix_spawn|kill)"
    r"|subprocess\.Popen|socket\.(connect|bind|send.*)|http\.client\.send|smtplib\.send|urllib\.Request|webbrowser\.open"
)
_CHANGING_NAMES = re.compile(r"tmp\w{8}|0x[0-9a-f]+")  # of temporary files, of addresses


def _watch_files(event: str, args: tuple[Any, ...]) -> None:
    if _effects and _EFFECTS.fullmatch(event) and "__pycache__" not in (text := repr(args)):
        _effects[-1].append(_CHANGING_NAMES.sub("", f"{event}{text}"))
    if not _files or event not in ("open", "sqlite3.connect") or not isinstance(args[0], str | bytes | os.PathLike):
        return
    mode = "w" if event != "open" else args[1] or ("+" if args[2] & (os.O_WRONLY | os.O_RDWR) else "")
    if set(str(mode)) & set("wax+"):
        path = os.path.abspath(os.fsdecode(args[0]))
        size = os.path.getsize(path) if "a" in str(mode) and os.path.exists(path) else 0
        _files[-1].setdefault(path, size)


sys.addaudithook(_watch_files)


def leaves(value: Any, path: str = "", depth: int = 0, ancestors: frozenset[int] = frozenset()) -> Iterator[tuple[str, Any]]:
    """Yield `(path, atom)` for all that a value holds; an atom is bytes, text or a float. Noisy numbers are released on the
    way."""
    if isinstance(value, NoisyArray):
        value = value.release() if value.ndim else np.float64(value.release())
    if isinstance(value, np.bool_):
        value = bool(value)
    if isinstance(value, bool | int | str | bytes | np.integer | type(None)):
        yield path, (type(value).__name__ if isinstance(value, bool | str | bytes | type(None)) else "int", str(value))
    elif isinstance(value, float | np.floating):
        yield path, float(value)
    elif id(value) in ancestors:
        yield path, "again"
    elif depth > _DEEPEST:
        _report_gap(path, f"{path} is deeper than {_DEEPEST} levels")
        yield path, type(value).__name__
    elif isinstance(value, np.ndarray):
        yield f"{path}.shape", str((value.shape, value.dtype.kind))
        if value.size > MOST_ITEMS and value.dtype.kind in "biuf" and not path.startswith("returned"):
            yield path, hashlib.blake2b((value + np.zeros((), value.dtype)).tobytes()).hexdigest()  # of both zeros alike
            return
        for i, part in enumerate(value.ravel().tolist()):
            yield from leaves(part, f"{path}[{i}]", depth + 1, ancestors | {id(value)})
    else:
        yield from _leaves_inside(value, path, depth + 1, ancestors | {id(value)})


def _report_gap(path: str, gap: str) -> None:
    recording = recordings.active()
    if recording is not None and not path.startswith("data"):
        recording.gaps.append(gap)


def _leaves_inside(value: Any, path: str, depth: int, ancestors: frozenset[int]) -> Iterator[tuple[str, Any]]:  # noqa: PLR0912 (one arm a kind)
    is_kept = path.startswith(("returned", "written", MEMORY))
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
        yield f"{path}.labels", repr(_labels(value))
        yield from leaves(value.to_numpy(), path, depth, ancestors)
    # only what the caller receives is used up: one in the program's state has to go on where it was
    elif isinstance(value, Iterator) and path.startswith("returned") and not isinstance(value, io.IOBase):
        yield from leaves(list(itertools.islice(value, MOST_ITEMS)), path, depth, ancestors)
    elif hasattr(value, "detach") and hasattr(value, "numpy"):
        yield from leaves(value.detach().cpu().numpy(), path, depth, ancestors)
        beside = [value.grad if value.is_leaf else None, vars(value)]
        yield from leaves(beside, f"{MEMORY} beside {path}", depth, ancestors) if any(map(_is_any, beside)) else ()
    elif isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType) and is_kept:
        yield from leaves(_held_by_function(value), path, depth, ancestors)
    elif isinstance(value, type) and is_kept and is_own_module(value.__module__):
        yield from leaves({name: part for name, part in vars(value).items() if name[:2] != "__"}, path, depth, ancestors)
    elif isinstance(value, SKIP):
        if isinstance(value, np.random.Generator | np.random.RandomState | random.Random) and path.startswith("returned"):
            _report_gap(path, f"{path} is a generator, with the state of all that it drew")
        yield path, type(value).__name__
    else:
        yield path, type(value).__name__
        for name, part in list(getattr(value, "__dict__", {}).items()):
            yield from leaves(part, f"{path}.{name}", depth, ancestors)
        yield from leaves(_state_beside(value, path), f"{path}.state", depth, ancestors)
    # a subclass of a container holds attributes beside its items
    if isinstance(value, dict | list | tuple | set) and type(value) not in (dict, list, tuple, set):
        parts = getattr(value, "__dict__", None), getattr(value, "default_factory", None)
        slots = [getattr(value, name, None) for name in slot_names(type(value))]
        yield from leaves([*parts, *slots], f"{path}.state", depth, ancestors)


def _is_any(item: Any) -> bool:
    return item is not None and item != {} if isinstance(item, dict | None) else True


def _labels(table: Any) -> tuple[Any, ...]:
    """Return what a table of pandas holds beside its numbers."""
    indices = [index for name in ("index", "columns") if (index := getattr(table, name, None)) is not None]
    kinds = table.dtypes if hasattr(table, "columns") else [table.dtype]
    categories = [list(kind.categories) for kind in kinds if hasattr(kind, "categories")]
    return *map(list, indices), *(list(index.names) for index in indices), categories, getattr(table, "attrs", {})


def _held_by_function(value: Any) -> Any:
    inner: Any = getattr(value, "__func__", value)
    owner = getattr(value, "__self__", None)
    if not isinstance(inner, types.FunctionType):
        return None if isinstance(owner, types.ModuleType) else owner
    return owner, inner.__defaults__, inner.__kwdefaults__, inner.__dict__, *map(content, inner.__closure__ or ())


def _state_beside(value: Any, path: str) -> Any:  # noqa: PLR0911 (one arm a kind)
    """Return what a value holds that is no attribute of it: slots, the inside of types of other languages."""
    if isinstance(value, Collection) and not hasattr(value, "__dict__"):
        if len(value) > MOST_ITEMS:
            _report_gap(path, f"a {type(value).__name__} of more than {MOST_ITEMS} items")
        return [list(itertools.islice(value, MOST_ITEMS)), *referents(value)]
    kind: Any = type(value)
    slots = [getattr(value, name, None) for name in slot_names(kind)]
    if isinstance(value, BaseException):
        if value.__traceback__ is not None:
            _report_gap(path, f"{path} holds the frames of the code that raised it")
        return slots, value.args, value.__cause__, value.__context__
    if isinstance(value, io.IOBase):
        if value.closed or not value.writable():
            return None
        if not isinstance(value, io.StringIO | io.BytesIO):
            _report_gap(path, f"{path} is a file that is open for writing")
            return None
        return value.getvalue()
    by_default = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    if (by_default and hasattr(value, "__dict__")) or is_own_module(kind.__module__):
        return slots
    parts = referents(value)
    try:
        reduction = value.__reduce_ex__(2)
    except Exception:  # noqa: BLE001  what cannot be written to a file is known by what it refers to
        if not parts:
            _report_gap(path, f"{path} is a {kind.__name__}, which cannot be read")
        return parts
    return slots, reduction if isinstance(reduction, str) else reduction[1:3], parts


def referents(value: Any) -> list[Any]:
    """Return the containers, functions and numbers that a value of another language refers to."""
    names = getattr(value, "__dict__", None)
    return [part for part in gc.get_referents(value) if part is not names and not isinstance(part, _ELSEWHERE)]


_ELSEWHERE = (type, types.ModuleType, types.CodeType, types.TracebackType)


def slot_names(kind: type) -> list[str]:
    """Return the attributes that a class keeps beside its dictionary."""
    slots = [name for base in kind.__mro__ for name in np.atleast_1d(vars(base).get("__slots__", ())).tolist()]
    return [name for name in slots if name not in ("__dict__", "__weakref__")]


def content(cell: Any) -> Any:
    """Return what a cell of a closure holds, or None."""
    with contextlib.suppress(ValueError):  # a cell that nothing has been put into
        return cell.cell_contents
    return None


def is_own(file: str) -> bool:
    """True for the user's code, not that of an installed package."""
    return "site-packages" not in file and not file.startswith((_STANDARD, _PACKAGE))


def is_own_module(name: str) -> bool:
    """True for a module of the user's code; one without a file is so too, unless Python or an installed package brings it."""
    top = name.partition(".")[0]
    files = [file for part in (name, top) if (file := getattr(sys.modules.get(part), "__file__", None))]
    return all(map(is_own, files)) if files else top not in sys.stdlib_module_names


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=logging.NOTSET)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _keep_warning(messages: list[str], message: Any, category: type, file: str, *_: Any) -> None:
    """Keep a warning of the user's code, whatever line it names; what numpy itself says of a line is none."""
    frame: Any = sys._getframe(1)
    while frame.f_code.co_filename == warnings.__file__:
        frame = frame.f_back
    first, last, *_ = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    call = "".join(linecache.getlines(frame.f_code.co_filename)[(first or 1) - 1 : last]) or "warn()"
    by_library = issubclass(category, RuntimeWarning | DeprecationWarning | FutureWarning | PendingDeprecationWarning)
    by_user = is_own(frame.f_code.co_filename) and (not by_library or re.search(r"warn\w*\s*\(", call))
    if by_user or (category is UserWarning and is_own(file)):
        messages.append(str(message))


@contextlib.contextmanager
def watch() -> Iterator[dict[str, Any]]:
    """A scope that records what a program does to the system and the process in the table, and puts it back."""
    table: dict[str, Any] = {}
    output, errors, handler, files, messages = io.StringIO(), io.StringIO(), _Records(), dict[str, int](), list[str]()
    effects, hooks = list[Any](), list[Any]()
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    _files.append(files)
    _effects.append(effects)
    environment, process = dict(os.environ), _process_state()
    arguments, folder = (sys.argv.copy(), sys.path.copy()), os.getcwd()
    streams = mock.patch.object(sys, "__stdout__", output), mock.patch.object(sys, "__stderr__", errors)
    calls = [
        mock.patch.object(os, "write", functools.partial(_record_call, effects, os.write)),
        mock.patch.object(atexit, "register", functools.partial(_register, hooks, atexit.register)),
    ]
    try:
        with contextlib.ExitStack() as stack:
            scopes: Any = (
                *(contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors), *streams, *calls),
                warnings.catch_warnings(),
            )
            for scope in scopes:
                stack.enter_context(scope)
            warnings.simplefilter("always")
            warnings.showwarning = functools.partial(_keep_warning, messages)
            yield table
            table |= {name: item for name, item in _process_state().items() if item != process[name]}
    finally:
        _files.pop()
        _effects.pop()
        root.removeHandler(handler)
        root.setLevel(level)
        changes = {name: text for name, text in os.environ.items() if environment.get(name) != text}
        _put_back(environment, arguments, folder, process["signals"])
    table |= {f"environment {name}": text for name, text in changes.items()}
    table["printed"], table["logged"], table["effects"] = output.getvalue(), handler.lines, effects
    table |= {"callbacks at the end": hooks} if hooks else {}
    table["errors"] = [line for line in errors.getvalue().splitlines() if "it/s" not in line]  # bars of progress tell times
    table["warnings"] = messages
    for path, size in files.items():
        with contextlib.suppress(OSError), open(path, "rb") as stream:
            stream.seek(size)
            table[f"file {os.path.basename(path)}"] = stream.read()


def _put_back(
    environment: dict[str, str], arguments: tuple[list[str], list[str]], folder: str, handlers: Mapping[int, Any]
) -> None:
    """Undo what a program did to the process: the next run, and whoever called, begin as this one did."""
    if dict(os.environ) != environment:
        os.environ.clear()
        os.environ.update(environment)
    if os.getcwd() != folder:
        os.chdir(folder)
    sys.argv[:], sys.path[:] = arguments
    # only the main thread may set handlers, so no program changed one elsewhere
    for number, action in handlers.items() if threading.current_thread() is threading.main_thread() else ():
        if action is not None and signal.getsignal(number) is not action:
            signal.signal(number, action)


def _register(hooks: list[Any], register: Any, function: Any, *args: Any, **options: Any) -> Any:
    if not is_own(sys._getframe(1).f_code.co_filename):
        return register(function, *args, **options)  # what a library cleans up
    return _record_call(hooks, lambda *_, **__: function, function, *args, **options)


def _record_call(calls: list[Any], function: Any, *args: Any, **options: Any) -> Any:
    calls.append((args, options))
    return function(*args, **options)


_SIGNALS = [
    number for name in ("INT", "TERM", "HUP", "USR1", "USR2", "ALRM") if (number := getattr(signal, f"SIG{name}", None))
]


def _process_state() -> dict[str, Any]:
    """Return settings of the process that a program can change."""
    return {
        "arguments": sys.argv.copy(),
        "paths": sys.path.copy(),
        "signals": {number: signal.getsignal(number) for number in _SIGNALS},
    }
