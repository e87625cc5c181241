"""One file, one plug-in: the file name is the registry.

A plug-in module ends in `PLUGIN = <frozen dataclass>`; its fields are its YAML keys. A third party's
class is named `their_package.module:Class`.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any, TypeVar

from audit.core.errors import ConfigError

Value = TypeVar("Value")


def names(package: str) -> tuple[str, ...]:
    """Names of the plug-ins in `package`, sorted; imports nothing but the package itself.

    >>> "one_run" in names("audit.bounds.estimators")
    True
    """
    path = importlib.import_module(package).__path__
    return tuple(sorted(info.name for info in pkgutil.iter_modules(path) if not info.name.startswith("_")))


def find(package: str, kind: str) -> type[Any]:
    """The class that `kind` names in `package`, or `ConfigError` with the nearest name."""
    if ":" in kind:
        foreign: type[Any] = _foreign(kind)
        return foreign
    known = names(package)
    if kind not in known:
        near = difflib.get_close_matches(kind, known, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"{package} has no '{kind}'.{hint} It has: {', '.join(known)}")
    plugin: type[Any] = importlib.import_module(f"{package}.{kind}").PLUGIN
    return plugin


def build(package: str, spec: Mapping[str, Any]) -> Any:
    """An instance of the plug-in that `spec["kind"]` names, its other keys being the fields.

    Raises:
        ConfigError: unknown kind or key (with the nearest match), or a value that the class refuses.
    """
    options = dict(spec)
    kind = options.pop("kind", None)
    if not isinstance(kind, str):
        raise ConfigError(f"{package}: an entry without 'kind': {dict(spec)!r}; name one of {', '.join(names(package))}")
    plugin = find(package, kind)
    allowed = (
        [one.name for one in dataclasses.fields(plugin) if one.init] if dataclasses.is_dataclass(plugin) else list(options)
    )
    for key in options:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ConfigError(f"{package}.{kind}: unknown key '{key}'.{hint} It takes: {', '.join(allowed) or 'no keys'}")
    try:
        return plugin(**options)
    except TypeError as error:
        raise ConfigError(f"{package}.{kind}: {error}") from error


def pick(name: str, known: Mapping[str, Value], key: str) -> Value:
    """What `name` stands for, or `ConfigError` with the nearest name."""
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise ConfigError(f"{key} is {name!r}.{hint} Expected one of {', '.join(known)}")


def load(name: str, kind: type[Value]) -> Value:
    """The object that `package.module:OBJECT` names.

    Raises:
        ConfigError: there is none, or it is no `kind`.
    """
    found = _foreign(name)
    if not isinstance(found, kind):
        raise ConfigError(f"'{name}' is a {type(found).__name__}; expected a {kind.__name__}")
    return found


def _foreign(kind: str) -> Any:
    module, _, attribute = kind.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"cannot load '{kind}': {error}; expected 'package.module:Class' on the import path") from error
