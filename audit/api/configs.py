"""A config as users of the functions give it: a file, the name of a shipped one, or a mapping."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.core.errors import ConfigError

if TYPE_CHECKING:
    from audit.config import Resolution


def resolve(config: str | Path | Mapping[str, Any], overrides: Mapping[str, Any]) -> Resolution:
    """Return the config of a file, of a shipped name or of a mapping, with values by dotted path in its own place.

    Raises:
        ConfigError: it cannot be used; the message names where.
    """
    from audit import config as configs

    changes = [f"{path}={_json(value, path)}" for path, value in overrides.items()]
    if isinstance(config, Mapping):
        return configs.parse(_json(dict(config), "config"), changes, os.environ)
    return configs.load(str(config), changes)


def _json(value: Any, location: str) -> str:
    """Return a value of a config as JSON, which is YAML; arrays of one number and paths are taken as their values."""

    def plain(item: Any) -> Any:
        if isinstance(item, Path):
            return str(item)
        if hasattr(item, "item"):
            return item.item()
        raise ConfigError(f"{location} holds a {type(item).__name__}; expected text, numbers, lists and mappings")

    return json.dumps(value, default=plain)
