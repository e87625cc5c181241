"""Code of the user's own that a command runs, by its name."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from audit.core.errors import ConfigError


def add_working_folder(names: Iterable[str | None]) -> None:
    """Let `module:object` name a file of the working directory; last on the path, so that it hides nothing."""
    if any(name is not None and ":" in name for name in names) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def find(name: str, kind: str = "object") -> Any:
    """The object that `package.module:object` names, or `ConfigError`; its module is executed."""
    from audit import plugins

    if ":" not in name:
        raise ConfigError(f"'{name}' names no {kind}; expected package.module:{kind}")
    return plugins.foreign(name)


@contextmanager
def prints_aside() -> Iterator[None]:
    """A scope in which what such code prints goes to stderr: stdout is for results, and with `--json` for one object."""
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def warnings_once() -> Iterator[None]:
    """A scope in which a warning of such code is shown the first time only."""
    warnings_so_far: set[tuple[type, str]] = set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_first(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
            kind = category, place[0] if place else ""
            if kind not in warnings_so_far:
                warnings_so_far.add(kind)
                show(message, category, *place, **options)

        warnings.simplefilter("always")
        warnings.showwarning = show_first
        yield


def instance(name: str, kind: str = "object") -> Any:
    """The object that a name represents, or `ConfigError`; a function is called without arguments."""
    value = find(name, kind)
    return call(value, name) if callable(value) else value


def call(function: Any, name: str) -> Any:
    """Return what a function gives without arguments; `ConfigError` if it takes some."""
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ConfigError(f"{name} cannot be called without arguments: {error}; name a function that returns it") from error
    except ValueError:
        pass  # of a function that C wrote, which says nothing of its arguments
    return function()
