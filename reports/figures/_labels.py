"""Where the names of curves go in a drawing."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from reports.figures._plots import COLOURS, LABEL_POINTS, Curve, Floats, write

MOST_ORDERS = 120  # all orders of five names
CLASH, OUTSIDE = 1e3, 1e4  # in covered curve pixels


def label(axes: Any, curves: Sequence[Curve]) -> None:
    """Writes each curve's name beside it, if the names together cover least of all curves and of each other.

    Every name is tried at many its own points curve, on eight sides, at three distances. Names are placed one
    after the other, in whichever order gives the smallest total cover.
    """
    renderer = axes.figure.canvas.get_renderer()
    obstacles = np.concatenate([_dense(axes, curve) for curve in curves])
    texts, places = [], []
    for curve in [curve for curve in curves if curve.name]:
        text = write(axes, 0.5, 0.5, curve.name, curve.tone, transform=axes.transAxes, ha="center")
        extent = text.get_window_extent(renderer)
        texts.append(text)
        places.append(_places(axes, _dense(axes, curve), obstacles, (extent.width, extent.height)))
    orders = itertools.islice(itertools.permutations(range(len(texts))), MOST_ORDERS)
    layouts = (_choose(places, order) for order in orders)
    _, layout = min(layouts, key=lambda layout: layout[0], default=(0.0, {}))
    for index, box in layout.items():
        middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
        texts[index].set_position(axes.transAxes.inverted().transform(middle))


def label_ends(axes: Any, curves: Sequence[Curve]) -> None:
    """Writes each curve's name to the right of the axes, level with its last point or as near to it as the others allow."""
    ends = axes.transAxes.inverted().transform([axes.transData.transform((curve.x[-1], curve.y[-1])) for curve in curves])
    line = 1.25 * LABEL_POINTS / 72 * axes.figure.dpi / axes.get_window_extent().height
    for curve, end, y in zip(curves, ends, spread([float(y) for _, y in ends], line), strict=True):
        axes.plot(
            [end[0] + 0.006, 1.03],
            [end[1], y],
            transform=axes.transAxes,
            color=COLOURS[curve.tone],
            linewidth=0.5,
            clip_on=False,
        )
        axes.text(1.037, y, curve.name, transform=axes.transAxes, color=COLOURS[curve.tone], va="center", fontsize=LABEL_POINTS)


def spread(targets: Sequence[float], gap: float) -> list[float]:
    """Places at least `gap` apart, in the order of `targets` and with the least squared distance to it.

    >>> [round(place, 2) for place in spread([0.0, 1.0, 0.1], 0.5)]
    [-0.2, 1.0, 0.3]
    """
    order = sorted(range(len(targets)), key=lambda i: targets[i])
    # isotonic regression: less their ranks' gaps places must not fall, and neighbours that do are pooled at their mean
    blocks: list[tuple[float, int]] = []  # mean of (wanted - rank * gap), and how many
    for rank, index in enumerate(order):
        mean, size = targets[index] - rank * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, weight = blocks.pop()
            mean, size = (before * weight + mean * size) / (weight + size), weight + size
        blocks.append((mean, size))
    level = [mean for mean, size in blocks for _ in range(size)]
    starts = dict(zip(order, level, strict=True))
    ranks = {index: rank for rank, index in enumerate(order)}
    return [starts[i] + ranks[i] * gap for i in range(len(targets))]


def short(names: Sequence[str]) -> list[str]:
    """The names without the words that all of them begin with.

    >>> short(["library 1.0 PLD", "library 1.0 RDP, classic"])
    ['PLD', 'RDP, classic']
    """
    words = [name.split() for name in names]
    prefix = 0
    while len(names) > 1 and all(len(word) > prefix + 1 and word[prefix] == words[0][prefix] for word in words):
        prefix += 1
    return [" ".join(word[prefix:]) for word in words]


def _choose(places: Sequence[tuple[Floats, Floats]], order: Sequence[int]) -> tuple[float, dict[int, Floats]]:
    """The total cost and the box of each name when they take their places in this order."""
    total = 0.0
    placement: dict[int, Floats] = {}
    for index in order:
        boxes, costs = places[index]
        costs = costs.copy()
        for first, low, right, high in placement.values():
            clash = (boxes[:, 0] < right) & (boxes[:, 2] > first) & (boxes[:, 1] < high) & (boxes[:, 3] > low)
            costs += CLASH * clash
        best = int(np.argmin(costs))
        total += float(costs[best])
        placement[index] = boxes[best]
    return total, placement


def _places(axes: Any, own: Floats, obstacles: Floats, size: tuple[float, float]) -> tuple[Floats, Floats]:
    """`(k, 4)` boxes in pixels that a name could fill, and the cost of each: curve pixels covered, then distance."""
    frame, half = axes.get_window_extent(), np.asarray(size) / 2
    if len(own) == 0:
        own = np.array([[frame.x0 + frame.width / 2, frame.y0 + frame.height / 2]])
    own = own[np.unique(np.linspace(0, len(own) - 1, 60).astype(int))]  # each costs 24 boxes
    sides = np.array([(0, 1), (0, -1), (-1, 1), (1, -1), (1, 1), (-1, -1), (1, 0), (-1, 0)])
    gaps = np.array([4.0, 10.0, 20.0])
    shift = (sides[:, None, :] * (half + gaps[None, :, None])).reshape(-1, 2)
    extra = np.tile(gaps * 0.02, len(sides)) + np.repeat(np.where(sides[:, 0] == 0, 0.0, 0.002), len(gaps))
    middles = (own[:, None, :] + shift[None, :, :]).reshape(-1, 2)
    boxes = np.hstack([middles - half, middles + half])
    # among places that cover nothing: near the curve first, then near the middle of the axes
    costs = np.tile(extra, len(own)) + 0.01 * np.abs(middles[:, 0] - frame.x0 - frame.width / 2) / frame.width
    costs += np.concatenate([_obstructions(nearby, obstacles) for nearby in boxes.reshape(len(own), -1, 4)])
    inside = (boxes[:, :2] > (frame.x0 + 3, frame.y0 + 2)).all(axis=1) & (boxes[:, 2:] < (frame.x1 - 1, frame.y1 - 1)).all(
        axis=1
    )
    return boxes, costs + OUTSIDE * ~inside


def _obstructions(boxes: Floats, obstacles: Floats) -> Floats:
    """Count the obstacles within 3 pixels of each of some boxes close together; what is far from all is left out first."""
    first, low, right, high = (boxes[:, i, None] + pad for i, pad in enumerate((-3.0, -3.0, 3.0, 3.0)))
    x, y = obstacles[:, 0], obstacles[:, 1]
    near = (x > first.min()) & (x < right.max()) & (y > low.min()) & (y < high.max())
    x, y = x[near], y[near]
    return np.asarray(((x > first) & (x < right) & (y > low) & (y < high)).sum(axis=1), dtype=np.float64)


def _dense(axes: Any, curve: Curve) -> Floats:
    """`(k, 2)` pixels about three apart along a curve, those inside the axes."""
    points = axes.transData.transform(np.column_stack([curve.x, curve.y]))
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) < 2:
        return np.asarray(points, dtype=np.float64)
    # a jump far outside of the axes would be millions of pixels long
    steps = np.clip((np.hypot(*np.diff(points, axis=0).T) / 3).astype(int), 1, 2000)
    share = (np.arange(steps.sum()) - np.repeat(np.cumsum(steps) - steps, steps)) / np.repeat(steps, steps)
    starts, moves = np.repeat(points[:-1], steps, axis=0), np.repeat(np.diff(points, axis=0), steps, axis=0)
    dense = np.concatenate([starts + share[:, None] * moves, points[-1:]])
    frame = axes.get_window_extent()
    inside = (dense[:, 0] >= frame.x0) & (dense[:, 0] <= frame.x1) & (dense[:, 1] >= frame.y0) & (dense[:, 1] <= frame.y1)
    return np.asarray(dense[inside], dtype=np.float64)
