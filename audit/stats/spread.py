"""Numbers spread evenly over a range, where not all can be looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def evenly(count: int, limit: int) -> NDArray[Any]:
    """At most `limit` of the numbers below `count`, ascending, first and last included.

    >>> evenly(9, 3).tolist()
    [0, 4, 8]
    """
    return np.unique(np.linspace(0, count - 1, min(count, limit)).round().astype(np.int64))
