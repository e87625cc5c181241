"""Where a test stops rejecting. Every search returns the end of its last bracket that is still rejected."""

from __future__ import annotations

from collections.abc import Callable

RESOLUTION = 1e-9


def last_rejected(
    rejects: Callable[[float], bool],
    *,
    start: float = 0.0,
    stride: float = 1.0,
    largest: float = 1e4,
    resolution: float = RESOLUTION,
) -> float:
    """The end of the interval `[start, x]` that `rejects` holds on, from below; `start` where it fails there.

    Args:
        rejects: true on an interval that begins at or below `start` (a monotone test), false beyond it.
        stride: how far beyond `start` the end is first looked for; doubled until found.
        largest: returned where even that is rejected.
        resolution: of the answer, relative to its size (absolute below 1).

    >>> last_rejected(lambda x: x < 0.25)  # doctest: +ELLIPSIS
    0.24999...
    """
    if not rejects(start):
        return start
    low, high = start, min(start + stride, largest)
    while rejects(high):
        if high >= largest:
            return largest
        stride *= 2
        low, high = high, min(high + stride, largest)
    while high - low > resolution * max(1.0, low):
        middle = (low + high) / 2
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low
