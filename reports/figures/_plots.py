"""How drawings look. matplotlib is imported on first use and its global state left alone."""

from __future__ import annotations

import functools
import hashlib
import io
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
COLOURS = {Tone.CLAIM: "#1f5fa8", Tone.MEASURED: "#b3321f", Tone.CHANCE: "#7a848c", Tone.PLAIN: INK}
DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1, 2)))
WIDTH_MM = 166.0
PIXELS_PER_INCH = 150
MOST_POINTS = 400
MOST_LETTERS = 60
LABEL_POINTS = 7.5
FALLBACK_FONT = Path(__file__).parents[1] / "pages" / "fonts" / "DroidSansFallback.ttf"
STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans", "Droid Sans Fallback"],
    "font.size": 8.0,
    **dict.fromkeys(("axes.titlesize", "axes.labelsize"), 8.0),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 7.5),
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.7),
    **dict.fromkeys(("xtick.minor.width", "ytick.minor.width"), 0.5),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 3.0),
    **dict.fromkeys(("xtick.minor.size", "ytick.minor.size"), 1.6),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
    **dict.fromkeys(("axes.axisbelow", "axes.unicode_minus"), True),
    "text.parse_math": False,  # a user's name may hold a dollar sign
    "svg.hashsalt": "audit-report",  # identifiers are drawn from it, so that equal figures have equal bytes
    "svg.fonttype": "path",  # outlines: whoever reads the file may lack the font
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
    """One figure with its caption and the text that represents it; written in a format when that is first asked for."""

    name: str
    caption: str
    alt: str
    figure: Figure

    @functools.cached_property
    def svg(self) -> bytes:
        return write_svg(self.figure)

    @functools.cached_property
    def png(self) -> bytes:
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
    """The name itself if it is plain, else its plain letters with a digest of the whole."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:MOST_LETTERS]
    # "a/b" and "a b" have the same plain letters, and would overwrite each other
    return plain if plain == name else f"{plain}~{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def step_curve(x: Floats, y: Floats, name: str = "") -> Curve:
    """A measured curve that keeps its value until the next point."""
    return Curve(x=np.repeat(x, 2)[1:], y=np.repeat(y, 2)[:-1], name=name, tone=Tone.MEASURED)


def draw(height_mm: float, paint: Callable[[Any], None]) -> tuple[bytes, bytes]:
    """The drawing that `paint` puts on an empty figure, as SVG and as PNG."""
    figure = draw_figure(height_mm, paint)
    return write_svg(figure), write_png(figure)


def write_svg(figure: Figure) -> bytes:
    """The figure as SVG. Equal figures give equal bytes."""
    # neither a time nor the version of matplotlib, which would make the bytes differ
    text = _rendering(figure, "svg", {"Date": None, "Creator": None}).decode()
    return visible(text, keep="\n\t").encode()  # texts stand in its comments


def write_screen(figure: Figure) -> bytes:
    """The figure as SVG with its words as text, without rims around them; for a browser."""
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
    with matplotlib.rc_context({**STYLE, **style}):  # some settings are read when a file is written, not when it is drawn
        figure.savefig(stream, format=form, metadata=metadata)
    return stream.getvalue()


def draw_figure(height_mm: float, paint: Callable[[Any], None]) -> Figure:
    """The figure itself, as `paint` leaves it, in the style of the reports."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    _know_fallback()
    with matplotlib.rc_context(STYLE):
        # not by pyplot, which keeps every figure and chooses a backend for the caller's program
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
