"""Code of the user's own that a command is told to run, by its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from audit.core.errors import ConfigError


def add_working_folder(names: Iterable[str | None]) -> None:
    """Let `module:object` name a file of the working directory; last on the path, so that it hides nothing."""
    if any(name is not None and ":" in name for name in names) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def find(name: str, kind: str = "object") -> Any:
    """The object that `package.module:object` names; its module is executed.

    Raises:
        ConfigError: the name has another form, or nothing of that name can be imported.
    """
    from audit import plugins

    if ":" not in name:
        raise ConfigError(f"'{name}' names no {kind}; expected package.module:{kind}")
    return plugins.foreign(name)
