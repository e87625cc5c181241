"""The identity of the code that a run executes: this project's, and that of every `module:object` its config names.

A run that continues with other code would put the models of two codes into one bound. Which modules a job reaches is hard to
determine (plug-ins are loaded by name), so packages are taken whole. Compiled third-party extensions are not read.
"""

import ast
import functools
import hashlib
import importlib.util
import json
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

OWN = "epsilon-audit"
_PACKAGES = ("audit", "attacks")
_SOURCES = frozenset({".py", ".c", ".h", ".cpp", ".cu", ".pyx"})
_REFERENCE = re.compile(r"([A-Za-z_]\w*)(?:\.\w+)*:[A-Za-z_][\w.]*")
_LIBRARIES = frozenset(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def digest(foreign: Iterable[str] = ()) -> str:
    return hashlib.sha256(json.dumps(sources(foreign), sort_keys=True).encode()).hexdigest()


def sources(foreign: Iterable[str] = ()) -> dict[str, str]:
    """The hash of this project's source, and of the source behind each top-level module in `foreign`, by name."""
    return {OWN: _own(), **{name: _foreign(name) for name in sorted(set(foreign))}}


def foreign_modules(value: Any) -> tuple[str, ...]:
    """The top-level modules behind each `module:object` anywhere in a config's values, sorted; this project's are left out.

    >>> foreign_modules({"trainer": {"kind": "user_function", "function": "json.decoder:loads"}, "scorers": ["loss"]})
    ('json',)
    """
    if isinstance(value, Mapping):
        return tuple(sorted({name for inner in value.values() for name in foreign_modules(inner)}))
    if isinstance(value, list | tuple):
        return tuple(sorted({name for inner in value for name in foreign_modules(inner)}))
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[1] in _PACKAGES or not _files(match[1]):
        return ()
    return (match[1],)


@functools.lru_cache(maxsize=1)
def _own() -> str:
    return _hash({name: _files(name) for name in _PACKAGES})


@functools.lru_cache
def _foreign(name: str) -> str:
    """Read once in a process, as the code itself is: an edit while a run continues changes nothing that is loaded."""
    return _hash(_reachable(name))


def _reachable(top: str) -> dict[str, list[Path]]:
    """The files of a top-level module, and of every one that it imports from the same folder, transitively.

    What is installed (the standard library, site-packages) is taken alone: versions of libraries are in the report.
    """
    units: dict[str, list[Path]] = {}
    waiting = [top]
    while waiting:
        name = waiting.pop()
        if name in units:
            continue
        units[name] = _files(name)
        home = _home(name)
        if home is not None and home not in _LIBRARIES:
            imports = {module for path in units[name] for module in _imports(path)}
            waiting += [module for module in imports if _home(module) == home and module not in _PACKAGES]
    return units


def _home(name: str) -> Path | None:
    spec = _spec(name)
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or [])
    origin = places[0] if places else spec.origin
    return None if origin is None else Path(origin).resolve().parent


def _files(name: str) -> list[Path]:
    """The sources of a top-level module: one file, or all of a package."""
    spec = _spec(name)
    if spec is None:
        return []
    if spec.submodule_search_locations:
        folders = [Path(place) for place in spec.submodule_search_locations]
        return sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in _SOURCES)
    return [Path(spec.origin)] if spec.origin is not None and Path(spec.origin).is_file() else []


def _spec(name: str) -> Any:
    """Return where a top-level module would be loaded from, without loading it; None if it is unknown or has no file."""
    module = sys.modules.get(name)
    if module is not None:
        return module.__spec__
    return importlib.util.find_spec(name)


def _imports(path: Path) -> set[str]:
    if path.suffix != ".py":
        return set()
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # a file that cannot be imported either; its bytes are hashed
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _hash(units: Mapping[str, Iterable[Path]]) -> str:
    digest = hashlib.sha256()
    for name, files in sorted(units.items()):
        for path in files:
            content = path.read_bytes()
            digest.update(f"{name}:{path.parent.name}/{path.name}:{len(content)};".encode())
            digest.update(content)
    return digest.hexdigest()
