"""How drawings look and where their labels go. matplotlib is imported on first use and its global state left alone."""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from audit.core.visible import visible
from reports.pages.blocks import Tone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

INK = "#1b2733"
SOFT = "#5b6670"
FAINT = "#d9dee3"
COLOURS = {
    Tone.CLAIM: "#1f5fa8",
    Tone.MEASURED: "#b3321f",
    Tone.CHANCE: "#7a848c",
    Tone.PLAIN: INK,
}
DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1, 2)))
WIDTH_MM = 166.0
PIXELS_PER_INCH = 150
MOST_POINTS = 400
MOST_ORDERS = 120
MOST_LETTERS = 60
LABEL_POINTS = 7.5
CLASH, OUTSIDE = 1e3, 1e4  # in covered curve pixels
FALLBACK_FONT = Path(__file__).parents[1] / "pages" / "fonts" / "DroidSansFallback.ttf"
STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans", "Droid Sans Fallback"],
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.minor.width": 0.5,
    "ytick.minor.width": 0.5,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "xtick.minor.size": 1.6,
    "ytick.minor.size": 1.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "text.parse_math": False,  # a user's name may hold a dollar sign
    "svg.hashsalt": "audit-report",
    "svg.fonttype": "path",
    "mathtext.fontset": "dejavusans",
    "savefig.facecolor": "white",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A figure before it is drawn: its words, made of the numbers, and how to paint it."""

    name: str
    caption: str
    alt: str
    height_mm: float
    paint: Callable[[Any], None]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One figure with its caption and the text that stands for it; written in a format when that is first asked for."""

    name: str
    caption: str
    alt: str
    figure: Figure

    @functools.cached_property
    def svg(self) -> bytes:
        """The figure as SVG."""
        return write_svg(self.figure)

    @functools.cached_property
    def png(self) -> bytes:
        """The figure as PNG."""
        return write_png(self.figure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A line in data coordinates with the words that name it ("" for an obstacle without a name)."""

    x: Floats
    y: Floats
    name: str = ""
    tone: Tone = Tone.PLAIN


def file_name(*parts: str) -> str:
    """A file name for whatever a user called things; different names never give the same file.

    >>> file_name("roc", "dp-sgd", "black_box"), file_name("a/b")
    ('roc.dp-sgd.black_box', 'a_b~c14cdd')
    """
    return ".".join(_plain(part) for part in parts)


def _plain(name: str) -> str:
    """The name itself where it is plain, else its plain letters with a digest of the whole."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:MOST_LETTERS]
    return plain if plain == name else f"{plain}~{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def step_curve(x: Floats, y: Floats, name: str = "") -> Curve:
    """A measured curve that keeps its value until the next point."""
    return Curve(x=np.repeat(x, 2)[1:], y=np.repeat(y, 2)[:-1], name=name, tone=Tone.MEASURED)


def draw(height_mm: float, paint: Callable[[Any], None]) -> tuple[bytes, bytes]:
    """The drawing that `paint` puts on an empty figure, as SVG and as PNG."""
    figure = painted(height_mm, paint)
    return write_svg(figure), write_png(figure)


def write_svg(figure: Figure) -> bytes:
    """The figure as SVG. Equal figures give equal bytes."""
    text = _rendering(figure, "svg", {"Date": None, "Creator": None}).decode()
    return visible(text, keep="\n\t").encode()  # texts stand in its comments


def write_screen(figure: Figure) -> bytes:
    """The figure as SVG whose words are text, without rims around them; for a browser."""
    from matplotlib.text import Text

    rims = {text: text.get_path_effects() for text in figure.findobj(Text) if text.get_path_effects()}
    try:
        for text in rims:
            text.set_path_effects([])
        content = _rendering(figure, "svg", {"Date": None, "Creator": None}, {"svg.fonttype": "none"})
    finally:
        for text, effects in rims.items():
            text.set_path_effects(effects)
    return visible(content.decode(), keep="\n\t").encode()


def write_png(figure: Figure) -> bytes:
    """The figure as PNG. Equal figures give equal bytes."""
    return _rendering(figure, "png", {"Software": None})


def _rendering(figure: Figure, form: str, metadata: dict[str, Any], style: Mapping[str, Any] = MappingProxyType({})) -> bytes:
    import matplotlib

    stream = io.BytesIO()
    with matplotlib.rc_context({**STYLE, **style}):
        figure.savefig(stream, format=form, metadata=metadata)
    return stream.getvalue()


def painted(height_mm: float, paint: Callable[[Any], None]) -> Figure:
    """The figure itself, as `paint` leaves it, in the style of the reports."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    _know_fallback()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_MM / 25.4, height_mm / 25.4), dpi=PIXELS_PER_INCH, layout=None)
        FigureCanvasAgg(figure)
        paint(figure)
    return figure


@functools.lru_cache(maxsize=1)
def _know_fallback() -> None:
    from matplotlib import font_manager

    font_manager.fontManager.addfont(FALLBACK_FONT)


def grid(axes: Any, direction: str = "both") -> None:
    """Faint lines behind the data."""
    axes.grid(True, axis=direction, color=FAINT, linewidth=0.5)


def log_ticks(axes: Any) -> None:
    """Minor ticks of two log axes, all of one axis as one line: a tick of matplotlib's own costs as much as a curve."""
    from matplotlib.markers import TICKDOWN, TICKLEFT
    from matplotlib.ticker import NullLocator

    look = {"linestyle": "none", "color": INK, "markeredgewidth": STYLE["xtick.minor.width"], "clip_on": False}
    for axis, mark in ((axes.xaxis, TICKDOWN), (axes.yaxis, TICKLEFT)):
        low, high = axis.get_view_interval()
        decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)))
        places = np.outer(decades, np.arange(2, 10)).ravel()
        places = places[(places >= low) & (places <= high)]
        axis.set_minor_locator(NullLocator())
        size = STYLE["xtick.minor.size"]
        if axis is axes.xaxis:
            axes.plot(places, np.zeros(len(places)), transform=axes.get_xaxis_transform(), marker=mark, markersize=size, **look)
        else:
            axes.plot(np.zeros(len(places)), places, transform=axes.get_yaxis_transform(), marker=mark, markersize=size, **look)


def thin(*columns: Sequence[float]) -> tuple[Floats, ...]:
    """Equal-length columns cut to at most `MOST_POINTS` rows, the first and the last kept."""
    arrays = tuple(np.asarray(column, dtype=np.float64) for column in columns)
    size = len(arrays[0])
    if size <= MOST_POINTS:
        return arrays
    index = np.unique(np.linspace(0, size - 1, MOST_POINTS).round().astype(int))
    return tuple(array[index] for array in arrays)


def write(axes: Any, x: float, y: float, text: str, tone: Tone, **options: Any) -> Any:
    """A label in data coordinates with a white rim, so that it stays legible on a line."""
    from matplotlib.patheffects import withStroke

    options = {"ha": "left", "va": "center", "fontsize": LABEL_POINTS, "zorder": 6} | options
    return axes.text(
        x, y, text, color=COLOURS[tone], path_effects=[withStroke(linewidth=2.2, foreground="white", alpha=0.9)], **options
    )


def label(axes: Any, curves: Sequence[Curve]) -> None:
    """Writes each curve's name beside it, where the names together cover least of all curves and of each other.

    Every name is tried at many points of its own curve, on eight sides, at three distances. Names are placed one
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
        for left, low, right, high in placement.values():
            clash = (boxes[:, 0] < right) & (boxes[:, 2] > left) & (boxes[:, 1] < high) & (boxes[:, 3] > low)
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
    own = own[np.unique(np.linspace(0, len(own) - 1, 60).astype(int))]
    sides = np.array([(0, 1), (0, -1), (-1, 1), (1, -1), (1, 1), (-1, -1), (1, 0), (-1, 0)])
    gaps = np.array([4.0, 10.0, 20.0])
    shift = (sides[:, None, :] * (half + gaps[None, :, None])).reshape(-1, 2)
    extra = np.tile(gaps * 0.02, len(sides)) + np.repeat(np.where(sides[:, 0] == 0, 0.0, 0.002), len(gaps))
    middles = (own[:, None, :] + shift[None, :, :]).reshape(-1, 2)
    boxes = np.hstack([middles - half, middles + half])
    costs = np.tile(extra, len(own)) + 0.01 * np.abs(middles[:, 0] - frame.x0 - frame.width / 2) / frame.width
    pad = 3.0
    x, y = obstacles[None, :, 0], obstacles[None, :, 1]
    left, low, right, high = (boxes[:, i, None] for i in range(4))
    costs += ((x > left - pad) & (x < right + pad) & (y > low - pad) & (y < high + pad)).sum(axis=1)
    inside = (boxes[:, :2] > (frame.x0 + 3, frame.y0 + 2)).all(axis=1) & (boxes[:, 2:] < (frame.x1 - 1, frame.y1 - 1)).all(
        axis=1
    )
    return boxes, costs + OUTSIDE * ~inside


def _dense(axes: Any, curve: Curve) -> Floats:
    """`(k, 2)` pixels about three apart along a curve, those inside the axes."""
    points = axes.transData.transform(np.column_stack([curve.x, curve.y]))
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) < 2:
        return np.asarray(points, dtype=np.float64)
    steps = np.clip((np.hypot(*np.diff(points, axis=0).T) / 3).astype(int), 1, 2000)
    share = (np.arange(steps.sum()) - np.repeat(np.cumsum(steps) - steps, steps)) / np.repeat(steps, steps)
    starts, moves = np.repeat(points[:-1], steps, axis=0), np.repeat(np.diff(points, axis=0), steps, axis=0)
    dense = np.concatenate([starts + share[:, None] * moves, points[-1:]])
    frame = axes.get_window_extent()
    inside = (dense[:, 0] >= frame.x0) & (dense[:, 0] <= frame.x1) & (dense[:, 1] >= frame.y0) & (dense[:, 1] <= frame.y1)
    return np.asarray(dense[inside], dtype=np.float64)
