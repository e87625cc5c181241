"""Numbers spread evenly over a range, where not all can be looked at, and parts of a range, where not all fit in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def evenly(count: int, limit: int) -> NDArray[Any]:
    """At most `limit` of the numbers below `count`, ascending, first and last included.

    >>> evenly(9, 3).tolist()
    [0, 4, 8]
    """
    return np.unique(np.linspace(0, count - 1, min(count, limit)).round().astype(np.int64))


def parts(count: int, width: int = 1, largest: int = 1 << 17) -> Iterator[slice]:
    """Slices that cover `range(count)` in order, so long that `width` rows of one hold about `largest` numbers (1 MiB).

    Work on records one part after the other keeps intermediate arrays in a core's cache, however many records there are.

    >>> list(parts(5, 2, 4))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    step = max(1, largest // max(width, 1))
    return (slice(start, start + step) for start in range(0, count, step))
