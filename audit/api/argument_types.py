"""One guard for the functions of `import audit`: an argument of a wrong type is named, with what was expected.

The annotations say what a function takes. What they leave open (`Any`, protocols, arrays of numbers) is checked no closer than
that a single number or a text is no array.
"""

from __future__ import annotations

import builtins
import collections.abc
import enum
import functools
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from audit.core.errors import ConfigError

Function = TypeVar("Function", bound=Callable[..., Any])
_NOT_ARRAYS = (str, bytes, numbers.Number, type(None), Mapping, type, types.FunctionType, set, frozenset)
_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "True or False", type(None): "None", Path: "a path"}


def guard(function: Function) -> Function:
    """Return a function that refuses arguments of another type than annotated, by name.

    Raises:
        ConfigError: from the function that is returned: an argument is missing, unknown or of another type.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def guarded(*arguments: Any, **keywords: Any) -> Any:
        try:
            bound = signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise ConfigError(f"{function.__name__}: {error}; it takes {', '.join(signature.parameters)}") from error
        hints = _hints(function)
        for name, value in bound.arguments.items():
            parameter, kind = signature.parameters[name], hints.get(name, Any)
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or value is parameter.default:
                continue
            if not fits(value, kind):
                raise ConfigError(f"{function.__name__}: {name} is {_excerpt(value)}; expected {describe(kind)}")
        return function(*arguments, **keywords)

    return typing.cast("Function", guarded)


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, each by itself: a name that is imported for checkers alone leaves one open, not all."""
    hints = {}
    for name, text in function.__annotations__.items():
        try:
            hints[name] = eval(text, {}, _Names(function)) if isinstance(text, str) else text
        except (AttributeError, TypeError):
            hints[name] = Any
    return hints


class _Names(dict[str, Any]):
    """What names in annotations stand for; one that is imported for type checkers alone is open unless it is a common one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        common = {"Array": np.ndarray, "Path": Path, "Any": Any}
        types_by_name = {name: getattr(collections.abc, name) for name in ("Callable", "Iterable", "Mapping", "Sequence")}
        super().__init__({**common, **types_by_name, **vars(builtins), **getattr(function, "__globals__", {})})

    def __missing__(self, name: str) -> Any:
        return Any


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of an annotated type, as far as that can be told without reading what it holds."""
    origin: Any = typing.get_origin(kind) or kind
    options = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        return any(fits(value, option) for option in (options[:1] if origin is typing.Annotated else options))
    if origin is typing.Literal:
        return any(value == option and type(value) is type(option) for option in options)
    if origin in (int, float, bool, str, Path, os.PathLike):
        return _fits_plain(value, origin)
    if origin is None:
        return value is None
    is_open = origin is Any or getattr(origin, "_is_protocol", False) or not isinstance(origin, type)
    return is_open or _is_instance(value, origin)


def _is_instance(value: Any, kind: type) -> bool:
    if kind in (np.ndarray, collections.abc.Sequence, collections.abc.Iterable, tuple, list):
        return _is_array(value)
    if issubclass(kind, enum.Enum) and isinstance(value, str):
        return True  # which the function looks up by its name
    return callable(value) if kind.__name__ == "Callable" else isinstance(value, kind)


def _fits_plain(value: Any, kind: Any) -> bool:
    is_flag = isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")
    if kind is bool:
        return is_flag
    if kind is int:
        return isinstance(value, numbers.Integral) and not is_flag
    if kind is float:
        return isinstance(value, numbers.Real) and not is_flag
    return isinstance(value, str) if kind is str else isinstance(value, str | os.PathLike)


def _is_array(value: Any) -> bool:
    return not isinstance(value, _NOT_ARRAYS) and (hasattr(value, "__len__") or hasattr(value, "__array__"))


def _excerpt(value: Any) -> str:
    text = repr(value)
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
        return "an array" if name == "ndarray" else "a list"
    return _WORDS.get(origin, f"a {name}")
