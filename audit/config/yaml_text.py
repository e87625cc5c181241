"""YAML as configs use it: mappings of words to plain values, of a size that a person writes."""

import re
from typing import Any

import yaml

from audit.core.errors import ConfigError

MOST_BYTES, MOST_NODES, DEEPEST = 2**20, 100_000, 50
_LONGEST_NUMBER = 400  # digits; Python refuses to read far longer ones, and no config needs them
_PLAIN = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map")}


class _Loader(yaml.SafeLoader):
    """SafeLoader that reads `1e-5` as a number, as YAML 1.2 and people do, and no dates or merge keys."""


# as in YAML 1.2 only true and false are booleans: `compile: on` and a class called `no` are words, and so are dates and `<<`
_LEFT_OUT = {f"tag:yaml.org,2002:{name}" for name in ("bool", "timestamp", "merge", "value")}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _LEFT_OUT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)


def _construct_text(loader: _Loader, node: yaml.ScalarNode) -> str:
    """Text with its escapes as characters: JSON writes a character beyond U+FFFF as two escapes, which PyYAML leaves apart."""
    value: str = loader.construct_scalar(node)
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"line {_line(node)}: half of an escaped pair; expected both halves, or the character itself"
        ) from error


_Loader.add_constructor("tag:yaml.org,2002:str", _construct_text)


def read(text: str) -> tuple[Any, dict[str, int]]:
    """The value that YAML text represents, and the line of each dotted key.

    `ConfigError` for more than a config needs: aliases, keys that are no words, dates, binary, merge keys, size and depth.
    """
    if len(text) > MOST_BYTES:
        raise ConfigError(f"holds {len(text):,} characters; expected at most {MOST_BYTES:,}")
    try:
        _refuse_depth(text)
        node = yaml.compose(text, Loader=_Loader)
        lines = {} if node is None else dict(_check_pairs(node, ""))
        return yaml.load(text, Loader=_Loader), lines
    except yaml.YAMLError as error:
        raise ConfigError(f"is not YAML: {error}") from error
    except (ValueError, KeyError) as error:  # an explicit tag on text that is no number, or neither true nor false
        raise ConfigError(f"holds a value that cannot be read: {error}") from error


def _refuse_depth(text: str) -> None:
    """Events come one by one, so that neither nesting nor aliases cost anything before they are refused."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(f"line {_line(event)}: the alias '*{event.anchor}'; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ConfigError(f"line {_line(event)}: more than {DEEPEST} levels of nesting")
        if count > MOST_NODES:
            raise ConfigError(f"line {_line(event)}: more than {MOST_NODES:,} values")


def _check_pairs(node: yaml.Node, path: str) -> list[tuple[str, int]]:
    """The line of each key below a node, each key and value found to be plain."""
    if node.tag not in _PLAIN:
        raise ConfigError(
            f"line {_line(node)}: a value of type {node.tag.rpartition(':')[2]}; expected text, a number or a list"
        )
    if isinstance(node, yaml.MappingNode):
        return _read_mapping(node, path)
    if isinstance(node, yaml.SequenceNode):
        rows = [(f"{path}.{index}", value) for index, value in enumerate(node.value)]
        return [pair for name, value in rows for pair in [(name, _line(value)), *_check_pairs(value, name)]]
    if node.tag.endswith(":int") and len(node.value) > _LONGEST_NUMBER:
        raise ConfigError(f"line {_line(node)}: a number of {len(node.value):,} digits")
    return []


def _read_mapping(node: yaml.MappingNode, path: str) -> list[tuple[str, int]]:
    pairs: list[tuple[str, int]] = []
    names = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag not in _PLAIN:
            raise ConfigError(f"line {_line(key)}: a key of type {key.tag.rpartition(':')[2]}; expected a word")
        if key.value == "<<":
            raise ConfigError(f"line {_line(key)}: the merge key '<<'; write the keys out")
        if key.value in names:
            raise ConfigError(f"line {_line(key)}: key '{key.value}' is given twice; keep one")
        names.add(key.value)
        name = f"{path}.{key.value}".lstrip(".")
        pairs += [(name, _line(key)), *_check_pairs(value, name)]
    return pairs


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def flow(value: Any) -> str:
    """A value as YAML on one line.

    >>> flow({"kind": "mlp", "hidden": [64]})
    '{kind: mlp, hidden: [64]}'
    """
    text = yaml.safe_dump(value, default_flow_style=True, width=2**31, allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()
