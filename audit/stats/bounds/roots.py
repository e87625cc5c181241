"""Where a test stops rejecting. Every search returns the end of its last bracket that is still rejected."""

import math
from collections.abc import Callable

RESOLUTION = 1e-9
MARGIN = 0.04  # of a bracket, by which a line through its ends may miss the crossing
Point = tuple[float, float]  # where, and the excess there


def last_rejected(
    rejects: Callable[[float], bool],
    *,
    start: float = 0.0,
    stride: float = 1.0,
    largest: float = 1e4,
    resolution: float = RESOLUTION,
) -> float:
    """The end of the interval `[start, x]` that `rejects` holds on, from below; `start` if it fails there.

    Args:
        rejects: true on an interval that begins at or below `start` (a monotone test), false beyond it.
        stride: how far beyond `start` the end is first looked for; doubled until found.
        largest: returned if even that is rejected.
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


def foresee(
    excess: Callable[[float], float], *, resolution: float = RESOLUTION, inside: tuple[Point, Point] | None = None
) -> Callable[[float], bool]:
    """Return `rejects` of `last_rejected` for where a non-decreasing excess is at most 0, that asks for it at fewer points.

    Those on either side of where a line crosses 0 decide most others. It is asked inside the bracket of earlier answers alone.

    Args:
        inside: points with an excess of at most 0 and above it, if they are known already.

    >>> asked = []
    >>> last_rejected(foresee(lambda x: asked.append(x) or x - 0.25, resolution=1e-6), resolution=1e-6), len(asked)
    (0.25, 8)
    """
    low, high = inside or ((-math.inf, -math.inf), (math.inf, math.inf))

    def rejects(x: float) -> bool:
        nonlocal low, high
        margin = MARGIN
        while low[0] < x < high[0]:
            point = _beside_crossing(low, high, x, max(margin * (high[0] - low[0]), resolution / 4))
            value, margin = excess(point), 2 * margin
            low, high = ((point, value), high) if value <= 0 else (low, (point, value))
        return x <= low[0]

    return rejects


def _beside_crossing(low: Point, high: Point, x: float, margin: float) -> float:
    """A point between `x` and where a line through the ends crosses, but for a margin; `x` if there is no line."""
    if not math.isfinite(high[1] - low[1]):
        return x
    crossing = low[0] + (high[0] - low[0]) * low[1] / (low[1] - high[1])
    return max(x, crossing - margin) if crossing > x else min(x, crossing + margin)


def stretches_end(rejects: Callable[[float, float], bool], *, largest: float, finest: float) -> float:
    """The end of the interval from 0 that stretches rejected as wholes cover without a gap, from below.

    Stretches are halves of halves of `[0, largest]` down to `finest` (relative above 1), the same for every test, so a test
    that rejects more never gives less. `rejects` may be False though every point of a stretch is rejected.

    >>> stretches_end(lambda low, high: high <= 0.3 or 0.5 <= low and high <= 0.7, largest=1.0, finest=0.01)
    0.296875
    """

    def follow(low: float, high: float) -> float:
        if rejects(low, high):
            return high
        if high - low <= finest * max(1.0, low):
            return low
        middle = (low + high) / 2
        end = follow(low, middle)
        return end if end < middle else follow(middle, high)

    return follow(0.0, largest) if rejects(0.0, 0.0) else 0.0  # no stretch is refuted if its beginning is not


def last_significant(
    p_value: Callable[[float], float],
    level: float,
    *,
    start: float = 0.0,
    stride: float = 1.0,
    largest: float = 1e4,
    resolution: float = RESOLUTION,
) -> float:
    """Return `last_rejected` with `p_value(x) <= level`, in fewer steps: next is the point where a line through log p crosses.

    Ends on a grid of binary fractions that does not depend on `p_value`, so nested tests have ordered results.

    >>> last_significant(lambda x: min(1.0, 0.01 * 2**x), 0.05)  # doctest: +ELLIPSIS
    2.3219...
    """
    low, below = start, _excess(p_value(start), level)
    if below > 0:
        return start
    high = min(start + stride, largest)
    above = _excess(p_value(high), level)
    while above <= 0:
        if high >= largest:
            return largest
        stride *= 2
        low, below, high = high, above, min(high + stride, largest)
        above = _excess(p_value(high), level)
    turn, moved_low = 0, False
    while high - low > resolution * max(1.0, low):
        turn += 1
        point = _between((low, below), (high, above), resolution * max(1.0, low), halve=turn % 4 == 0, from_below=not moved_low)
        excess = _excess(p_value(point), level)
        moved_low = excess <= 0
        low, below, high, above = (point, excess, high, above) if moved_low else (low, below, point, excess)
    return max(start, _on_grid(lambda x: p_value(x) <= level, low, high, resolution))


def _on_grid(rejects: Callable[[float], bool], low: float, high: float, resolution: float) -> float:
    """The largest point of a grid, about as fine as the resolution, that is rejected; `low` is, `high` is not."""
    base = 2.0 ** math.ceil(math.log2(resolution))

    def spacing(x: float) -> float:
        return base * 2.0 ** math.floor(math.log2(max(1.0, x)))

    point = math.floor(low / spacing(low)) * spacing(low)
    while (further := point + spacing(point)) < high and (further <= low or rejects(further)):
        point = further
    return point


def _excess(p_value: float, level: float) -> float:
    """Logarithm of the p-value over the level: at most 0 if it is significant."""
    return math.log(p_value / level) if p_value > 0 else -math.inf


def _between(low: tuple[float, float], high: tuple[float, float], resolution: float, *, halve: bool, from_below: bool) -> float:
    """Return where a line crosses zero, moved so that the next answer closes the bracket from that side; else the middle."""
    (first, below), (right, above) = low, high
    if halve or math.isinf(below):
        return (first + right) / 2
    crossing = first + (right - first) * below / (below - above) + (-0.4 if from_below else 0.4) * resolution
    margin = 0.02 * (right - first)
    return min(max(crossing, first + margin), right - margin)
