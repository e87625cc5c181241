"""Where large arrays are that are computed on the way: in memory, or in files of the run folder that are mapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from audit.core.data import Array

# `room(name, shape, dtype)` is an array to be filled; a second one of a name takes the place of the first
Room = Callable[[str, tuple[int, ...], Any], Array]


def in_memory(name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """An array in memory."""
    return np.empty(shape, dtype)
