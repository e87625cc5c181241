"""From YAML text and overrides to a validated `Config`, with errors that name file, line, key and what is allowed."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from audit import plugins
from audit.config import yaml_text
from audit.config.model import VERSION, Config
from audit.core.errors import ConfigError

ENVIRONMENT_PREFIX = "AUDIT_SET_"
DEFAULT = "default"
_FOREIGN_ONLY = frozenset({"checks", "coverage"})
_NO_IDENTITY = frozenset({"about", "execution", "name", "title", "output", "unaccounted"})


@dataclass(frozen=True, slots=True)
class Resolution:
    """A validated config, its canonical text, its identity, and the origin of each value, with its line in the file.

    `sha256` is that of the canonical text without the sections that decide nothing of what is found: `execution` says where
    models are trained, the others how the report is called, what it quotes and where it goes. A run can go on under others.
    `settings` are the values that a user gave. `is_shipped`: a config of the project, with its data as they are there.
    """

    config: Config
    text: str
    sha256: str
    origins: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...] = ()
    lines: tuple[tuple[str, int], ...] = ()
    is_shipped: bool = False


def config_names(name: str) -> Path:
    """The file of a config: a path, or a name of the project's (beside a folder of that name too); else `ConfigError`."""
    path = Path(name)
    if path.is_file():
        return path
    if path.suffix in (".yaml", ".yml"):
        raise ConfigError(
            f"config file '{name}' does not exist; give a path to a YAML file or one of: {', '.join(shipped_configs())}"
        )
    for folder in _folders():
        if (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
    hint = plugins.hint(name, shipped_configs())
    raise ConfigError(
        f"no config is called '{name}'.{hint} There are: {', '.join(shipped_configs())}; or give a path to a YAML file"
    )


def shipped_configs() -> tuple[str, ...]:
    return tuple(sorted({path.stem for folder in _folders() for path in folder.glob("*.yaml")}))


def _folders() -> list[Path]:
    package = Path(__file__).resolve().parents[1]
    return [folder for folder in (package / "_configs", package.parent / "configs") if folder.is_dir()]


def load(name: str, overrides: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Resolution:
    """The config of that name or path, with `a.b=c` overrides (defaults < file < environment < overrides)."""
    path = config_names(name)
    resolution = parse(_text(path), overrides, os.environ if environment is None else environment, location=path.name)
    data_origins = {origin for key, origin in resolution.origins if key in ("data.kind", "data.path", "data.test_path")}
    is_shipped = path.resolve().parent in _folders() and data_origins <= {path.name, DEFAULT}
    return replace(resolution, is_shipped=is_shipped)


def parse(
    text: str, overrides: Sequence[str] = (), environment: Mapping[str, str] | None = None, location: str = "config"
) -> Resolution:
    """The config that YAML text describes, or `ConfigError` for text that is none or of a newer version, and unknown keys."""
    raw, lines = _read_yaml(text, location)
    origins = dict.fromkeys(find_leaves(raw), location)
    variables = [(key, value) for key, value in (environment or {}).items() if key.startswith(ENVIRONMENT_PREFIX)]
    for key, value in sorted(variables):
        path = key.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
        _replace_origin(origins, _set(raw, path, value), f"environment {key}")
    for override in overrides:
        path, separator, value = override.partition("=")
        if not separator:
            raise ConfigError(f"--set {override}: expected KEY=VALUE, for example --set delta=1e-6")
        _replace_origin(origins, _set(raw, path, value), "--set")
    config = _validate(raw, lines, origins, location)
    values = _plain_values(config)
    canonical = yaml.safe_dump(_in_order(values), sort_keys=False, allow_unicode=True)
    leaves = find_leaves(values)
    setting_origins = tuple((path, _origin(path, origins)) for path in leaves)
    lasting = {key: values[key] for key in values if key not in _NO_IDENTITY}
    identity = yaml.safe_dump(_in_order(lasting), sort_keys=False, allow_unicode=True)
    settings = tuple((path, in_words(value)) for path, value in leaves.items() if _origin(path, origins) != DEFAULT)
    digest = hashlib.sha256(identity.encode()).hexdigest()
    return Resolution(config, canonical, digest, setting_origins, settings, tuple(lines.items()))


def _in_order(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """Return a value with the keys of its mappings sorted, but for `model.inputs`: their order says how records are cut."""
    if isinstance(value, list):
        return [_in_order(item, (*path, at)) for at, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    try:
        keys = list(value) if path == ("model", "inputs") else sorted(value)
    except TypeError:  # keys of several types
        keys = list(value)
    return {key: _in_order(value[key], (*path, key)) for key in keys}


def in_words(value: Any) -> str:
    """Return a leaf of the config as a person reads it."""
    return "none" if value in (None, [], {}) else str(value).lower() if isinstance(value, bool) else str(value)


def _plain_values(config: Config) -> dict[str, Any]:
    """Return a config's values, without the sections that few fill if they are empty."""
    values: dict[str, Any] = config.model_dump(mode="json")
    sections = {key: value for key, value in values.items() if value or key not in _FOREIGN_ONLY}
    return {key: value for key, value in sections.items() if key != "about" or any(value.values())}


def options(path: Path, permitted_keys: Sequence[str]) -> dict[str, tuple[Any, str]]:
    """The values of a YAML file that holds a command's options by name, each with its `file:line`, or `ConfigError`."""
    raw, lines = _read_yaml(_text(path), path.name)
    places = {key: f"{path.name}:{lines.get(str(key), 1)}" for key in raw}
    for key, place in places.items():
        if str(key).replace("-", "_") not in permitted_keys:
            hint = plugins.hint(str(key), permitted_keys)
            raise ConfigError(f"{place}: unknown option '{key}'.{hint} Allowed here: {', '.join(permitted_keys)}")
    return {str(key).replace("-", "_"): (value, places[key]) for key, value in raw.items()}


def _text(path: Path) -> str:
    """The text of a config file; a pipe or a device, which may never end, is none."""
    try:
        if not path.is_file():
            raise ConfigError(f"config '{path}' is not a regular file; give a YAML file")
        with path.open("rb") as stream:
            content = stream.read(4 * yaml_text.MOST_BYTES + 1)
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read config '{path}': {error}") from error


def _read_yaml(text: str, location: str) -> tuple[dict[str, Any], dict[str, int]]:
    try:
        raw, lines = yaml_text.read(text)
    except ConfigError as error:
        raise ConfigError(f"{location}, {error}" if str(error).startswith("line") else f"{location} {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{location} holds {type(raw).__name__}; expected a mapping with version, name, data, model, ...")
    return {str(key): value for key, value in raw.items()}, lines


def _set(raw: dict[str, Any], path: str, text: str) -> str:
    """Put a YAML value at `a.b.0.c` and return that path with numbers; list entries go by name or number."""
    keys = path.split(".")
    place: Any = raw
    exact: list[str] = []
    for key in keys[:-1]:
        at = _index(place, key, path)
        current = place[at] if isinstance(place, list) else place.get(at)
        if not isinstance(current, dict | list):  # a plug-in written as its bare name becomes a mapping
            place[at] = {} if current is None else {"kind": current}
        place = place[at]
        exact.append(str(at))
    try:
        value, _ = yaml_text.read(text)
    except ConfigError as error:
        raise ConfigError(f"--set {path}: '{text[:200]}' cannot be used: {error}") from error
    last = _index(place, keys[-1], path)
    place[last] = value
    return ".".join([*exact, str(last)])


def _index(place: Any, key: str, path: str) -> Any:
    """Return what to index `place` with: the key itself in a mapping, the number of the entry in a list."""
    if not isinstance(place, list):
        return key
    entries = [entry.get("name", entry.get("kind")) if isinstance(entry, dict) else entry for entry in place]
    if key in entries:
        return entries.index(key)
    if key.isdigit() and int(key) < len(place):
        return int(key)
    raise ConfigError(f"--set {path}: no entry '{key}'; there are {entries} (by name or by number from 0)")


def _validate(raw: dict[str, Any], lines: Mapping[str, int], origins: Mapping[str, str], location: str) -> Config:
    version = raw.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        raise ConfigError(
            f"{location}: version {version} is newer than this program reads ({VERSION}); install a newer epsilon-audit"
        )
    if "version" in raw and version != VERSION:
        raise ConfigError(f"{location}: version is {version!r}; expected {VERSION}")
    try:
        return Config.model_validate_json(json.dumps(raw, default=str), strict=True)
    except ValidationError as error:
        problems = [_problem(error, lines, origins, location) for error in error.errors()]
        raise ConfigError("\n".join(problems)) from error


def _problem(error: Any, lines: Mapping[str, int], origins: Mapping[str, str], location: str) -> str:
    loc = [str(part) for part in error["loc"]]
    path = ".".join(loc)
    place = _place(path, lines, origins, location)
    if error["type"] == "extra_forbidden":
        permitted_keys = _keys_at(loc[:-1])
        return (
            f"{place}: unknown key '{path}'.{plugins.hint(loc[-1], permitted_keys)} Allowed here: {', '.join(permitted_keys)}"
        )
    if error["type"] == "unknown_key":
        path = f"{path}.{error['ctx']['key']}"
        return f"{_place(path, lines, origins, location)}: unknown key '{path}'.{error['msg']}"
    message = error["msg"].removeprefix("Value error, ")
    value_text = "" if error["type"] in ("missing", "value_error") else f" (found {error['input']!r})"
    return f"{place}: {path or 'config'}: {message}{value_text}"


def _place(path: str, lines: Mapping[str, int], origins: Mapping[str, str], location: str) -> str:
    """Return where a value was given: `file:line`, or the override or environment variable it came from."""
    origins_below = {origin for name, origin in origins.items() if name.startswith(f"{path}.")}
    origin = origins_below.pop() if len(origins_below) == 1 else _origin(path, origins)  # all of a section from one place
    if origin not in (DEFAULT, location):
        return origin
    parts = path.split(".")
    line_numbers = (lines.get(".".join(parts[:length])) for length in range(len(parts), 0, -1))
    line = next((number for number in line_numbers if number is not None), None)
    return f"{location}:{line}" if line else location


def _keys_at(loc: Sequence[str]) -> list[str]:
    model: Any = Config
    for part in loc:
        if part.isdigit():
            continue
        if isinstance(model, type) and issubclass(model, BaseModel):
            field = model.model_fields.get(part)
            model = None if field is None else _model_within(field.annotation)
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def _model_within(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in get_args(annotation) if (model := _model_within(inner)) is not None), None)


def find_leaves(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        parts = [find_leaves(inner, f"{path}.{key}".lstrip(".")) for key, inner in value.items()]
    elif isinstance(value, list) and value:
        parts = [find_leaves(inner, f"{path}.{index}") for index, inner in enumerate(value)]
    else:
        return {path: value}
    return {leaf: inner for part in parts for leaf, inner in part.items()}


def _replace_origin(origins: dict[str, str], path: str, origin: str) -> None:
    """Note where a value comes from; what lay below it is gone."""
    for key in [key for key in origins if key.startswith(f"{path}.")]:
        del origins[key]
    origins[path] = origin


def _origin(path: str, origins: Mapping[str, str]) -> str:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in origins:
            return origins[prefix]
    return DEFAULT
