"""Code of the user's own that a command is told to run, by its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable


def add_working_folder(names: Iterable[str | None]) -> None:
    """Let `module:object` name a file of the working directory; last on the path, so that it hides nothing."""
    if any(name is not None and ":" in name for name in names) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
