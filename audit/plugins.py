"""One file, one plug-in: the file name is the registry.

A plug-in module ends in `PLUGIN = <frozen dataclass>`; its fields are its YAML keys. A third party's
class is named `their_package.module:Class`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import numbers
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeVar

from audit.core.errors import AuditError, ConfigError, UnknownKey
from audit.core.plugin_answers import MEMBERS, Member

Value = TypeVar("Value")

# What one file adds, and the package it goes into. `audit ls` lists each of them.
FOLDERS: Mapping[str, str] = {
    "accountants": "audit.accounting.accountants",
    "canaries": "attacks.canaries",
    "checks": "audit.checks.executed",
    "coverage": "audit.experiment.coverage",
    "estimators": "audit.bounds.estimators",
    "executors": "audit.execution.executors",
    "formats": "reports.formats",
    "gates": "audit.experiment.gates",
    "mechanisms": "audit.mechanisms",
    "models": "audit.models.architectures",
    "optimizers": "audit.optimizers",
    "readers": "audit.data.readers",
    "scorers": "attacks.scorers",
    "signals": "attacks.signals",
    "targets": "audit.subjects",
    "languages": "reports.words.languages",
    "trainers": "audit.trainers",
}
# the kind of plug-in that each package holds, as `MEMBERS` calls it
_KINDS: Mapping[str, str] = {
    **{package: kind for kind, package in FOLDERS.items()},
    "audit.step_checks.probes": "probes",
    "audit.step_checks.rounds.probes": "probes",
}


def names(package: str) -> tuple[str, ...]:
    """Return the names of the plug-ins in `package`, sorted: its files, and the names in its `PLUGINS` if it has any.

    Imports nothing but the package itself.

    >>> "one_run" in names("audit.bounds.estimators")
    True
    """
    module = importlib.import_module(package)
    files = {info.name for info in pkgutil.iter_modules(module.__path__) if not info.name.startswith("_")}
    return tuple(sorted(files | set(getattr(module, "PLUGINS", ()))))


def name_classes(*classes: type[Any]) -> dict[str, type[Any]]:
    """Return classes by the names that their own files would have: for small plug-ins that share a file.

    >>> class MaxTprAt1Percent: ...
    >>> list(name_classes(MaxTprAt1Percent))
    ['max_tpr_at_1_percent']
    """
    return {re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Z])", "_", own.__name__).lower(): own for own in classes}


def share_files(**names_by_file: str) -> dict[str, str]:
    """Return the file of each plug-in of a folder in which several share a file, from the names in each file.

    >>> share_files(_texts="min_k zlib_ratio")
    {'min_k': '_texts:MinK', 'zlib_ratio': '_texts:ZlibRatio'}
    """
    rows = ((file, name) for file, names in names_by_file.items() for name in names.split())
    return {name: f"{file}:{name.title().replace('_', '')}" for file, name in rows}


def in_order(package: str) -> dict[str, type[Any]]:
    """Return all plug-ins of a package by name, in the order of their `position`, in which they act or are listed."""
    own = {name: find(package, name) for name in names(package)}
    return dict(sorted(own.items(), key=lambda item: item[1].position))


def check_name(package: str, kind: str, location: str | None = None) -> str:
    """Return `kind`, a plug-in's name in `package` or `package.module:Class`; else `ConfigError` with the nearest name."""
    known_names = names(package)
    if kind not in known_names and ":" not in kind:
        raise ConfigError(f"{location or package} has no '{kind}'.{hint(kind, known_names)} It has: {', '.join(known_names)}")
    return kind


def find(package: str, kind: str, location: str | None = None) -> type[Any]:
    """Return the class that `kind` names in `package`, else `ConfigError`; `location` represents the package in messages."""
    check_name(package, kind, location)
    if ":" in kind:
        plugin_class = foreign(kind)
        if not isinstance(plugin_class, type):  # not called, whatever it is
            form = type(plugin_class).__name__
            raise ConfigError(f"{location or package}: '{kind}' is a {form}; expected a class, whose fields are the keys")
        return plugin_class
    table: Mapping[str, type[Any] | str] = getattr(importlib.import_module(package), "PLUGINS", {})
    own = table.get(kind, f"{kind}:PLUGIN")  # a text names a module of the package, which is imported only now
    if isinstance(own, type):
        return own
    module, _, attribute = own.partition(":")
    plugin: type[Any] = getattr(importlib.import_module(f"{package}.{module}"), attribute)
    return plugin


def build(package: str, spec: Mapping[str, Any], location: str | None = None) -> Any:
    """Return an instance of the plug-in that `spec["kind"]` names, its other keys being the fields.

    Raises:
        ConfigError: unknown kind or key (with the nearest match), a key that is missing, or a value that the class refuses.
    """
    options = dict(spec)
    kind = options.pop("kind", None)
    place = location or package
    if not isinstance(kind, str):
        raise ConfigError(f"{place}: an entry without 'kind': {dict(spec)!r}; name one of {', '.join(names(package))}")
    plugin = find(package, kind, location)
    allowed_options, mandatory = keys(plugin)
    if dataclasses.is_dataclass(plugin):
        for key in options:
            if key not in allowed_options:
                takes = ", ".join(allowed_options) or "no keys"
                raise UnknownKey(key, f"{hint(key, allowed_options)} It takes: {takes}", f"{place}.{kind}")
        for key in mandatory:
            if key not in options:
                raise ConfigError(f"{place}.{kind} needs the key '{key}'")
    try:
        instance = plugin(**options)
        check_types(plugin, options, f"{place}.{kind}")  # after the plug-in's own checks, whose messages say more
    except TypeError as error:
        check_types(plugin, options, f"{place}.{kind}")
        raise ConfigError(f"{place}.{kind}: {error}") from error
    members = MEMBERS.get(_KINDS.get(package, ""), {})
    method = next(iter(members), "")
    if method and not callable(getattr(instance, method, None)):
        raise ConfigError(f"{place}: '{kind}' has no method '{method}'; expected {members[method].form}")
    return instance if ":" not in kind or is_own(instance) else check_answers(instance, package, kind)


def check_answers(instance: Any, package: str, name: str) -> Any:
    """Return a plug-in of a third party with methods that check what they return, and whose errors begin with `name`."""
    kind = _KINDS.get(package, "")
    for attribute, member in MEMBERS.get(kind, {}).items():
        if not member.form:
            _ask(name, attribute, member, lambda attribute=attribute: getattr(instance, attribute))
    # a frozen plug-in stays the object that it is, with the methods of a subclass
    plugin_class: Any = type(instance)
    with suppress(TypeError):  # a class that allows no subclass answers as it is
        object.__setattr__(instance, "__class__", _checked_class(plugin_class, kind, name))
    return instance


def _ask(name: str, member_name: str, member: Member, ask: Callable[..., Any], *call: Any, **options: Any) -> Any:
    with foreign_code(f"{name}.{member_name}"):
        answer = ask(*call, **options)
        problem = member.problem(answer, *call, **options)
    if problem:
        raise ConfigError(f"{name}.{member_name} returned {problem}; expected {member.returns}")
    return answer


@functools.cache
def _checked_class(plugin_class: Any, kind: str, name: str) -> Any:
    """Return the subclass of a third party's class with methods that check what the class's own return."""

    def reduce(self: Any, protocol: Any) -> Any:
        parts = plugin_class.__reduce_ex__(self, protocol)
        return (_new_checked, (plugin_class, kind, name), *parts[2:]) if parts[0] is _NEW_OBJECT else parts

    identity = {key: getattr(plugin_class, key) for key in ("__module__", "__qualname__", "__doc__")}
    body = {"__slots__": (), "__reduce_ex__": reduce, **identity}
    subclass = type(plugin_class)(plugin_class.__name__, (plugin_class,), body)
    for method, member in MEMBERS.get(kind, {}).items():
        if member.form and hasattr(plugin_class, method):
            setattr(subclass, method, _checked_method(subclass, method, member, name))
    return subclass


_NEW_OBJECT = object().__reduce_ex__(2)[0]  # how pickle makes an object whose class does not say how


def _checked_method(subclass: Any, method: str, member: Member, name: str) -> Callable[..., Any]:
    def ask(self: Any, *call: Any, **options: Any) -> Any:
        return _ask(name, method, member, getattr(super(subclass, self), method), *call, **options)

    return ask


def _new_checked(plugin_class: Any, kind: str, name: str) -> Any:
    """Return the checked plug-in that another process unpickles, before its fields are set."""
    _FURTHER.add(re.split("[.:]", name)[0])
    subclass = _checked_class(plugin_class, kind, name)
    return subclass.__new__(subclass)


def is_own(plugin: Any) -> bool:
    """Return whether a plug-in's class is this project's, no third party's."""
    return type(plugin).__module__.partition(".")[0] in _OWN


def refuse_answer(plugin: Any, method: str, answer: str, expected: str) -> NoReturn:
    """Raise `ConfigError` for what a method of a plug-in returned, in words."""
    name = f"{type(plugin).__module__}:{type(plugin).__qualname__}"
    raise ConfigError(f"{name}.{method} returned {answer}; expected {expected}")


_TYPES: Mapping[str, tuple[type, str]] = {
    "float": (numbers.Real, "a number"),
    "int": (numbers.Integral, "a whole number"),
    "bool": (bool, "true or false"),
    "str": (str, "text"),
    "None": (type(None), "none"),
    "Mapping[str, Any]": (Mapping, "names with values"),
}


def check_types(plugin: type[Any], options: Mapping[str, Any], place: str) -> None:
    """Raise `ConfigError` for a value of the wrong type, if its field is of types that have words here."""
    for field in dataclasses.fields(plugin) if dataclasses.is_dataclass(plugin) else ():
        # names, not types: a third party's annotation need not exist when the program runs
        text = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
        kinds = [kind.strip() for kind in text.split("|")]
        if field.name in options and set(kinds) <= _TYPES.keys():
            value = options[field.name]
            if not any(_is_kind(value, kind) for kind in kinds):
                words = " or ".join(_TYPES[kind][1] for kind in kinds)
                raise ConfigError(f"{place}: {field.name} is {value!r}; expected {words}")


def _is_kind(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind][0]) and (kind == "bool" or not isinstance(value, bool))


def keys(plugin: type[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys that a plug-in takes, and those of them that have no default."""
    fields = [field for field in dataclasses.fields(plugin) if field.init] if dataclasses.is_dataclass(plugin) else []
    mandatory = [
        field.name for field in fields if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    return tuple(field.name for field in fields), tuple(mandatory)


def hint(word: str, candidates: Sequence[str]) -> str:
    """Return a sentence with the word of `candidates` that was probably meant, or nothing.

    >>> hint("mpl", ["mlp", "cnn"])
    " Did you mean 'mlp'?"
    """
    near = difflib.get_close_matches(word, list(candidates), n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def refuse_unknown(keys: Iterable[Any], allowed: Sequence[str], place: str) -> None:
    """Raise `ConfigError` for the first key of a section that is not among those allowed, with the nearest of these."""
    for key in keys:
        if key not in allowed:
            takes = ", ".join(allowed) or "no keys"
            raise ConfigError(f"{place}: unknown key '{key}'.{hint(str(key), allowed)} It takes: {takes}")


def pick(name: str, options: Mapping[str, Value], key: str) -> Value:
    """Return what `name` represents, or `ConfigError` with the nearest name."""
    if name in options:
        return options[name]
    raise ConfigError(f"{key} is {name!r}.{hint(name, list(options))} Expected one of {', '.join(options)}")


def load(name: str, kind: type[Value]) -> Value:
    """Return the object that `package.module:OBJECT` names; `ConfigError` if it is no `kind`."""
    instance = foreign(name)
    if not isinstance(instance, kind):
        raise ConfigError(f"'{name}' is a {type(instance).__name__}; expected a {kind.__name__}")
    return instance


def foreign(name: str, location: str = "") -> Any:
    """Return what `package.module:object` names, third-party code; else `ConfigError`, the `location` of the name first."""
    module, _, attribute = name.partition(":")
    place = f"{location}: " if location else ""
    if not all(part.isprintable() and part.strip() and "/" not in part for part in module.split(".")):
        raise ConfigError(f"{place}'{name}' names no module; expected 'package.module:object' on the import path")
    if (package := module.partition(".")[0]) not in _OWN:
        _FURTHER.add(package)
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, SyntaxError) as error:
        at = fault(error)
        reason = (
            f"{at}: {type(error).__name__}: {error}."
            if at
            else f"{error}; expected 'package.module:object' on the import path."
        )
        hints = _near_name(error, module, attribute) or _absent_package(error, module)
        raise ConfigError(f"{place}cannot load '{name}': {reason}{hints}") from error


def _near_name(error: Exception, module: str, attribute: str) -> str:
    """Return a sentence with the module or object that was probably meant, if a word of the name itself is not there."""
    if isinstance(error, AttributeError) and getattr(error, "obj", None) is sys.modules.get(module):
        return hint(attribute, [word for word in dir(sys.modules[module]) if not word.startswith("_")])
    if isinstance(error, ModuleNotFoundError) and error.name is not None and f"{module}.".startswith(f"{error.name}."):
        package, _, word = error.name.rpartition(".")
        folders = getattr(sys.modules.get(package), "__path__", None) if package else None
        return hint(word, [info.name for info in pkgutil.iter_modules(folders) if not info.name.startswith("_")])
    return ""


def _absent_package(error: Exception, module: str) -> str:
    """Return a sentence on the package that the named module imports and this Python does not have."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None or f"{module}.".startswith(f"{error.name}."):
        return ""
    return f" Install what brings '{error.name.partition('.')[0]}' for {sys.executable}, which runs this command"


@contextmanager
def foreign_code(place: str, *, whole: bool = True) -> Iterator[None]:
    """A scope in which third-party code runs: its errors become a `ConfigError` that names `place`, error and line.

    Errors of this project and those of memory that ran out, which fewer models at once may mend, pass as they are. With `whole`
    False so do errors that did not come through code loaded by name: the scope also holds code of this project.
    """
    try:
        yield
    except (AuditError, MemoryError):
        raise
    except Exception as error:
        at, reason = fault(error), str(error).strip().partition("\n")[0] or "no reason given"
        if (isinstance(error, RuntimeError) and "memory" in reason) or not (at or whole):
            raise
        raise ConfigError(f"{place}: {type(error).__name__}: {reason}{f' ({at})' if at else ''}") from error


_OWN = ("audit", "attacks", "reports")  # may be named too, but their errors are this project's
_FURTHER: set[str] = set()  # top-level modules of others that `foreign` was asked for


def named_packages() -> list[str]:
    """Return the top-level packages of third parties that were loaded by name, sorted."""
    return sorted(_FURTHER)


def fault(error: BaseException) -> str:
    """Return file and line of the last third-party code, loaded by name, that an error came through; "" if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = [(frame.f_globals.get("__name__") or "", frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(frame, line) for name, frame, line in frames if name.partition(".")[0] in _FURTHER]
    return f"{own[-1][0].f_code.co_filename}, line {own[-1][1]}" if own else ""


def explain(error: BaseException) -> str:
    """Return type, message and, of third-party code, the place of an error.

    >>> explain(ValueError("too few"))
    'ValueError: too few'
    """
    at = fault(error)
    return f"{type(error).__name__}: {error}{f' ({at})' if at else ''}"
