"""Numbers spread evenly over a range, where not all can be looked at, and parts of a range, where not all fit in memory."""

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


LARGEST = 1 << 17  # numbers of all rows together in a part, about: 1 MiB as float64


def parts(count: int, width: int = 1, largest: int | None = None) -> Iterator[slice]:
    """Slices that cover `range(count)` in order, so long that `width` rows of one hold about `largest` numbers (`LARGEST`).

    Work on records one part after the other keeps intermediate arrays in a core's cache, however many records there are. No
    part is of a single record unless there is but one: numpy adds up a column that is alone in another order than one of
    several, and results must not depend on where parts end.

    >>> list(parts(5, 2, 4))
    [slice(0, 2, None), slice(2, 5, None)]
    >>> list(parts(0))
    []
    """
    step = max(2, (LARGEST if largest is None else largest) // max(width, 1))
    starts = list(range(0, count, step))
    if len(starts) > 1 and count - starts[-1] == 1:
        starts.pop()
    return (slice(start, stop) for start, stop in zip(starts, [*starts[1:], count], strict=True)) if starts else iter(())
