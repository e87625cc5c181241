"""State outside of a program that it can change: what is kept there is seen, and put back after each run."""

import collections
import contextlib
import copy
import functools
import io
import itertools
import operator
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from audit.replays import recording as recordings
from audit.replays.surviving import MEMORY, MOST_ITEMS, SKIP, content, is_own, is_own_module, leaves, referents, slot_names

MOST_FUNCTIONS = 200  # in one table
_ABSENT = object()  # a name that a program may set


class Surroundings:
    """Globals, modules and classes that the user's code names, closures, attributes and defaults of functions, its object.

    Attributes:
        functions: of the user's code that the program can reach.
        constants: numbers and texts in the code of the program, at which its decisions may flip.
    """

    def __init__(self, function: Any) -> None:
        self.constants: list[Any] = []
        self.owners: dict[str, tuple[Any, str]] = {}  # where each is kept: in a dictionary, a class or a cell
        items: dict[str, Any] = {}
        self._large: dict[str, tuple[Any, Any]] = {}  # containers of many items, with a copy that shares the items
        reach = _Reach(function, self.constants)
        self._caches: dict[str, Any] = {}
        for owner, name, item in reach:
            if isinstance(item, functools._lru_cache_wrapper):
                self._caches[f"{MEMORY} cache {name}"] = item
            if not _is_state(item, name):
                continue
            kind = "class" if isinstance(owner, type) else "closure" if isinstance(owner, types.CellType) else "global"
            label = f"{kind} {owner.__name__}.{name}" if isinstance(owner, type) else f"{kind} {name}"
            label += "'" * (label in items or label in self._large)  # of another module
            if isinstance(item, list | dict | set) and len(item) > MOST_ITEMS:
                self._large[label] = item, copy.copy(item)
                continue
            if not isinstance(owner, types.FunctionType):
                self.owners[label] = owner, "cell_contents" if kind == "closure" else name
            items[label] = item
        inner = getattr(function, "__func__", function)
        owner = getattr(function, "__self__", None if inner is not function else function)
        if owner is not None and hasattr(owner, "__dict__") and not isinstance(owner, SKIP):
            items["self"] = owner
        if isinstance(function, types.FunctionType):
            items["function attributes"] = function.__dict__
        memo = dict[int, Any]()  # what one item shares with another, its copy shares as well
        self.before = {label: (item, _copy(item, memo)) for label, item in items.items()}
        self._places = {(id(owner), name) for owner, name in self.owners.values()}
        self._spaces = list(reach.spaces.values())
        self.functions = [space for space in self._spaces if isinstance(space, types.FunctionType)]
        self._names: list[dict[str, Any]] = []  # of each of these spaces, when the run began

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """A scope after which the state is as it was before."""
        self._names = [dict(_names(space)) for space in self._spaces]
        for cache in self._caches.values():
            cache.cache_clear()
        try:
            yield
        finally:
            self._restore()

    def _restore(self) -> None:
        """Put the state back that was there at first, in place."""
        memo = dict[int, Any]()
        for label, (item, backup) in self.before.items():
            _put_back(item, backup, memo)
            if label in self.owners and self._current(label) is not item:
                owner, name = self.owners[label]
                _set(owner, name, item)
        for item, backup in self._large.values():
            if _has_changes(item, backup):
                _refill(item, backup)
        for space, name, earlier, _ in list(self._changes()):
            _set(space, name, earlier)

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Yield the atoms of the state now."""
        for label in self.before:
            item = self._current(label)
            if item is not _ABSENT:
                by_name = label in self.owners and (isinstance(item, SKIP) or callable(item))
                yield from leaves(item, f"{MEMORY} {label}" if by_name else label)
        for label, cache in self._caches.items():
            parts = referents(cache)
            entries = [entry for part in parts if isinstance(part, dict) for entry in part.values()]
            yield from leaves([list(part) if isinstance(part, dict) else part for part in parts], label)
            yield from leaves([entry for entry in entries if type(entry).__name__ != "_lru_list_elem"], label)  # parts as well
        for label, (item, backup) in self._large.items():
            if _has_changes(item, backup) and (recording := recordings.active()) is not None:
                recording.gaps.append(f"{label} has more than {MOST_ITEMS} items, and the program changes it")
        for space, name, _, item in self._changes():
            table = vars(space) if isinstance(space, types.ModuleType) else space
            if (id(table), name) not in self._places:
                label = f"{MEMORY} {getattr(space, '__name__', 'global')}.{name}"
                yield (label, "absent") if item is _ABSENT else (label, "present")
                code = getattr(item, "__code__", None)
                if item is not _ABSENT and (
                    _is_own_space(space) or _is_state(item, name) or (code is not None and is_own(code.co_filename))
                ):
                    yield from leaves(item, label)

    def _changes(self) -> Iterator[tuple[Any, str, Any, Any]]:
        """Yield space, name, earlier and present content of each name that means something else than when the run began."""
        for space, before in zip(self._spaces, self._names, strict=False):
            present = _names(space)
            if len(present) == len(before) and all(map(operator.is_, present.values(), before.values())):
                continue
            present = dict(present)
            for name in [*before, *(name for name in present if name not in before)]:
                earlier, item = before.get(name, _ABSENT), present.get(name, _ABSENT)
                if earlier is not item and not (str(name).startswith("__") and name != "__doc__"):
                    yield space, name, earlier, item

    def _current(self, label: str) -> Any:
        if label not in self.owners:
            return self.before[label][0]
        owner, name = self.owners[label]
        return owner.get(name, _ABSENT) if isinstance(owner, dict) else getattr(owner, name, _ABSENT)


class _Reach:
    """Owner, name and content of the globals, attributes and cells that a function of the user's code can reach.

    Attributes:
        spaces: where it can set names: dictionaries of globals, modules, classes and functions, by identity.
    """

    def __init__(self, function: Any, constants: list[Any]) -> None:
        self.spaces: dict[int, Any] = {}
        self._functions, self._constants, self._history = [function], constants, set[Any]()

    def __iter__(self) -> Iterator[tuple[Any, str, Any]]:
        while self._functions:
            part: Any = self._functions.pop()
            part = getattr(part, "func", getattr(part, "__func__", part))  # of a partial function, of a method
            if not hasattr(part, "__code__") and not isinstance(part, type):
                yield from self._class(type(part))
                part = getattr(type(part), "__call__", None)  # noqa: B004
            code = getattr(part, "__code__", None)
            if code is None or code in self._history or not is_own(code.co_filename):
                continue
            self._history.add(code)
            self.spaces[id(part)] = part
            for i, item in enumerate(part.__defaults__ or ()):
                yield part, f"default {i} of {part.__name__}", item
                self._functions += [item] if isinstance(item, types.FunctionType) else []
            for name, item in (part.__kwdefaults__ or {}).items():
                yield part, f"default {name} of {part.__name__}", item
            for name, cell in zip(code.co_freevars, part.__closure__ or (), strict=True):
                yield from self._content(cell, name, content(cell), set())
            yield from self._code(code, part.__globals__)

    def _code(self, code: Any, names: dict[str, Any]) -> Iterator[tuple[Any, str, Any]]:
        self.spaces.setdefault(id(names), names)
        codes = [code]
        for part in codes:
            codes += [item for item in part.co_consts if isinstance(item, types.CodeType)]
            constants = [item for item in part.co_consts if type(item) in (int, float, str)]
            self._constants += [item for item in dict.fromkeys(constants) if item not in self._constants]
            vocabulary = {*part.co_names, *(item for item in constants if item in names)}
            for name in sorted(vocabulary):
                if (id(names), name) not in self._history:
                    self._history.add((id(names), name))
                    yield from self._content(names, name, names.get(name, _ABSENT), vocabulary)

    def _content(self, owner: Any, name: str, item: Any, vocabulary: set[str]) -> Iterator[tuple[Any, str, Any]]:
        yield owner, name, item
        if isinstance(item, type):
            yield from self._class(item)
        elif isinstance(item, types.ModuleType):
            table = vars(item)
            self.spaces[id(table)] = item
            for inner in sorted(vocabulary & set(table)) if is_own_module(item.__name__) else ():
                if (id(table), inner) not in self._history:
                    self._history.add((id(table), inner))
                    yield from self._content(table, inner, table[inner], vocabulary)
        elif isinstance(item, dict | list | tuple):  # a table of functions
            parts = item.values() if isinstance(item, dict) else item
            self._functions += [part for part in itertools.islice(parts, MOST_FUNCTIONS) if callable(part)]
        else:
            self._functions.append(item)

    def _class(self, kind: type) -> Iterator[tuple[Any, str, Any]]:
        for base in kind.__mro__:
            if id(base) in self._history or base.__flags__ & _IMMUTABLE:
                continue
            self._history.add(id(base))
            self.spaces[id(base)] = base
            if is_own_module(base.__module__):
                self._functions += vars(base).values()
                yield from ((base, key, value) for key, value in vars(base).items() if not hasattr(value, "__get__"))


_IMMUTABLE = 1 << 8  # flag of a class that takes no attribute


def _names(space: Any) -> Any:
    return space if isinstance(space, dict) else vars(space)


def _is_own_space(space: Any) -> bool:
    if isinstance(space, types.ModuleType):
        return is_own_module(space.__name__)
    return is_own_module(space.__module__) if isinstance(space, type) else True


def _set(owner: Any, name: str, item: Any) -> None:
    if isinstance(owner, dict | types.FunctionType | types.ModuleType):
        table = _names(owner)
        if item is _ABSENT:
            table.pop(name, None)
        else:
            table[name] = item
    elif item is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, item)


def _is_state(item: Any, name: str) -> bool:
    module = type(item).__module__
    if callable(item) and not (is_own_module(module) or module == "sqlite3" or hasattr(item, "state_dict")):
        return False
    return not (name.startswith("__") or isinstance(item, SKIP) or module in ("typing", "__future__"))


def _has_changes(item: Any, before: Any) -> bool:
    """True if a container holds other items than its copy, by identity."""
    if isinstance(item, set):
        return bool(item != before)
    parts = [itertools.chain(part, part.values() if isinstance(part, dict) else ()) for part in (item, before)]
    return len(item) != len(before) or any(map(operator.is_not, *parts))


def _copy(item: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy; what cannot be copied, such as a lock, is in it as it is: it cannot be put back."""
    try:
        return copy.deepcopy(item, memo)
    except Exception:  # noqa: BLE001  any type may refuse
        if type(item) is dict:
            return {key: _copy(part, memo) for key, part in item.items()}
        if type(item) in (list, tuple):
            return type(item)(_copy(part, memo) for part in item)
        if isinstance(item, SKIP) or not hasattr(item, "__dict__") or not is_own_module(type(item).__module__):
            return item
        try:
            twin = memo[id(item)] = object.__new__(type(item))
        except TypeError:  # made by another language, such as a struct of ctypes
            return item
        parts = _copy(vars(item), memo)
        vars(twin).update(parts)
        return twin


def _refill(item: Any, before: Any) -> None:
    item.clear()
    (item.extend if isinstance(item, list | collections.deque) else item.update)(before)


def _put_back(item: Any, before: Any, memo: dict[int, Any]) -> None:
    if item is before or type(item) is not type(before):
        return
    if isinstance(item, tuple):
        for part, earlier in zip(item, before, strict=True):
            _put_back(part, earlier, memo)
    elif isinstance(item, list | dict | set | collections.deque):
        _refill(item, _copy(before, memo))
    elif isinstance(item, np.ndarray) and item.flags.writeable:
        item[...] = before
    elif isinstance(item, io.StringIO | io.BytesIO):
        item.seek(0)
        item.truncate()
        item.write(before.getvalue())  # type: ignore[arg-type]
    elif not isinstance(item, SKIP):
        if hasattr(item, "__dict__"):
            vars(item).clear()
            vars(item).update(_copy(vars(before), memo))
        for name in slot_names(type(item)):
            with contextlib.suppress(AttributeError):  # a slot that holds nothing
                object.__setattr__(item, name, _copy(getattr(before, name), memo))
