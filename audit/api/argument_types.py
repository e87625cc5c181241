"""One guard for the functions and classes of `import audit`: an argument of a wrong type is named, with what was expected.

The annotations say what a function takes. What they leave open (`Any`, protocols) is checked by the function. Of an array it is
checked that it is one, and that nothing in it is a text beside numbers, None or a mapping.
"""

from __future__ import annotations

import builtins
import collections.abc
import dataclasses
import decimal
import enum
import functools
import inspect
import numbers
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from audit.core.errors import ConfigError

Function = TypeVar("Function", bound=Callable[..., Any])
_NOT_ARRAYS = (str, bytes, numbers.Number, type(None), Mapping, type, types.FunctionType, set, frozenset)
_NOT_ENTRIES = (str, bytes, type(None), Mapping, type, types.FunctionType, set, frozenset)
_LISTS = (tuple, list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable)
_MOST_BITS = 1000  # of a whole number: every float reaches it, and no seed is longer
_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "True or False", type(None): "None", Path: "a path"}


def guard(function: Function) -> Function:
    """Return a function that refuses arguments of another type than annotated, by name.

    Raises:
        ConfigError: from the function that is returned: an argument is missing, unknown or of another type.
    """
    return _with_check(function, function.__name__)


def guard_module(module: types.ModuleType) -> types.ModuleType:
    """Guard the public functions of a module, in place, and return it."""
    for name, value in list(vars(module).items()):
        is_public = name in getattr(module, "__all__", ()) or getattr(value, "__module__", "") == module.__name__
        if isinstance(value, types.FunctionType) and is_public and not name.startswith("_"):
            setattr(module, name, guard(value))
    return module


def guard_class(kind: type) -> type:
    """Guard the constructor of a class that is made of annotated fields, in place, and return the class."""
    if dataclasses.is_dataclass(kind):
        kind.__init__ = _with_check(kind.__init__, kind.__name__)  # type: ignore[misc, method-assign]
    return kind


def _with_check(function: Function, label: str) -> Function:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            bound = signature.bind(*arguments, **keywords)
        except TypeError as error:
            names = ", ".join(name for name in signature.parameters if name != "self")
            raise ConfigError(f"{label}: {error}; it takes {names}") from error
        hints = _hints(function)
        for name, value in bound.arguments.items():
            parameter, kind = signature.parameters[name], hints.get(name, Any)
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or value is parameter.default:
                continue
            if not fits(value, kind):
                raise ConfigError(f"{label}: {name} is {_excerpt(value)}; expected {describe(kind)}")
        return function(*arguments, **keywords)

    return typing.cast("Function", call)


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, each alone: a name that is imported for checkers alone leaves one open, not all."""
    hints = {}
    for name, text in function.__annotations__.items():
        if name == "return":
            continue
        try:
            hints[name] = eval(text, {}, _Names(function)) if isinstance(text, str) else text
        except (AttributeError, TypeError):
            hints[name] = Any
    return hints


class _Names(dict[str, Any]):
    """What names in annotations represent; one that is imported for type checkers alone is open unless it is a common one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        common = {"Array": np.ndarray, "Path": Path, "Any": Any}
        types_by_name = {name: getattr(collections.abc, name) for name in ("Callable", "Iterable", "Mapping", "Sequence")}
        given_names = {**vars(builtins), **getattr(function, "__globals__", {})}
        super().__init__({**common, **types_by_name, **given_names, "ArrayLike": np.ndarray})

    def __missing__(self, name: str) -> Any:
        if name == "pd":
            import pandas

            return pandas
        public: Any = sys.modules[__name__.partition(".")[0]]  # which imports this module
        return getattr(public, name) if name in public.__all__ else Any


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of an annotated type, as far as that shows without reading its entries."""
    origin: Any = typing.get_origin(kind) or kind
    options = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        return any(fits(value, option) for option in (options[:1] if origin is typing.Annotated else options))
    if origin is typing.Literal:
        return any(isinstance(value, type(option)) and bool(value == option) for option in options)
    if origin in (int, float, bool, str, Path, os.PathLike):
        return _fits_plain(value, origin)
    if origin is None:
        return value is None
    is_open = origin is Any or getattr(origin, "_is_protocol", False) or not isinstance(origin, type)
    return is_open or _is_instance(value, origin, options)


def _is_instance(value: Any, kind: type, options: tuple[Any, ...]) -> bool:
    if kind is np.ndarray:
        return _is_array(value)
    if kind in _LISTS:
        return _is_list(value, kind, options)
    if issubclass(kind, Mapping):
        is_series = options[:1] == (Any,) and _has_index(value)
        return (isinstance(value, Mapping) or is_series) and all(
            _fit_entries(entries, options[place : place + 1]) for place, entries in enumerate(zip(*value.items(), strict=True))
        )
    if issubclass(kind, enum.Enum) and isinstance(value, str):
        return True  # which the function looks up by its name
    return callable(value) if kind.__name__ == "Callable" else isinstance(value, kind)


def _has_index(value: Any) -> bool:
    """Return whether a value has entries by name, as a pandas Series has; the columns of a table are none."""
    return callable(getattr(value, "items", None)) and not isinstance(value, type) and not hasattr(value, "columns")


def _is_list(value: Any, kind: type, options: tuple[Any, ...]) -> bool:
    """Return whether a value is a list of fitting entries; one that is consumed by reading it, a generator, is not read."""
    if isinstance(value, str | bytes | Mapping | type) or not hasattr(value, "__iter__") or hasattr(value, "columns"):
        return False
    if getattr(value, "ndim", 1) == 0:
        return False
    if not hasattr(value, "__len__"):
        return kind is collections.abc.Iterable
    if isinstance(value, set | frozenset) and kind not in (set, frozenset, collections.abc.Iterable):
        return False  # whose order changes from run to run
    if kind is tuple and options and Ellipsis not in options:
        return len(value) == len(options) and all(fits(entry, option) for entry, option in zip(value, options, strict=True))
    return _fit_entries(value, options[:1])


def _fit_entries(values: Any, options: tuple[Any, ...]) -> bool:
    return not options or options[0] is Any or all(fits(value, options[0]) for value in values)


def _fits_plain(value: Any, kind: Any) -> bool:
    if kind in (int, float, bool) and (isinstance(value, np.ndarray) or hasattr(value, "detach")):
        value = value.item() if value.ndim == 0 else None  # an array without dimensions is one number
    is_flag = isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")
    if kind is bool:
        return is_flag
    if kind in (int, float):
        form = numbers.Integral if kind is int else numbers.Real | decimal.Decimal
        is_huge = isinstance(value, numbers.Integral) and int(value).bit_length() > _MOST_BITS
        return isinstance(value, form) and not is_flag and not is_huge
    return isinstance(value, str) if kind is str else isinstance(value, str | os.PathLike)


def _is_array(value: Any) -> bool:
    if isinstance(value, _NOT_ARRAYS) or not (hasattr(value, "__len__") or hasattr(value, "__array__")):
        return False
    if isinstance(value, np.ndarray):
        return value.ndim > 0 and _fit_objects(value)
    if not isinstance(value, list | tuple):
        return True
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):  # rows of unequal length, or tensors, which the function reads itself
        return not all(isinstance(row, list | tuple | np.ndarray) for row in value)
    is_text = [isinstance(entry, str | bytes) for entry in value]
    return _fit_objects(array) and (all(is_text) or not any(is_text))


def _fit_objects(array: np.ndarray) -> bool:
    """Return whether an array of objects holds what may represent numbers, or text alone (a column of a frame)."""
    if array.dtype.kind != "O":
        return True
    if all(isinstance(entry, str) for entry in array.flat):
        return array.size > 0
    return not any(isinstance(entry, _NOT_ENTRIES) or type(entry) is object for entry in array.flat)


def _excerpt(value: Any) -> str:
    try:
        text = repr(value) if not isinstance(value, numbers.Integral) or int(value).bit_length() <= _MOST_BITS else "beyond any"
    except Exception:  # noqa: BLE001  the value is of a class that is not ours
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"a {type(value).__name__}"


def describe(kind: Any) -> str:
    """Return an annotation in words.

    >>> describe(int | None), describe(float)
    ('a whole number or None', 'a number')
    """
    origin, options = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(option) for option in options)
    if origin is typing.Literal:
        return " or ".join(map(repr, options))
    if kind is None:
        return "None"
    origin = origin or kind
    name = getattr(origin, "__name__", str(origin))
    if name in ("ndarray", "Sequence", "Iterable", "tuple", "list"):
        entries = [option for option in options if option in _WORDS] if name != "ndarray" else []
        inner = f", each {describe(entries[0])}" if len(entries) == 1 else f" of {len(entries)} entries" if entries else ""
        return f"{'an array' if name == 'ndarray' else 'a list'}{inner}"
    return _WORDS.get(origin, f"a {name}")
