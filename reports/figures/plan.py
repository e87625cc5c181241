"""The drawing of `audit plan`: the epsilon that each estimator would catch, between the claim and its ceiling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from audit.core.plans import PowerRow
from audit.core.rounding import elide
from reports.figures import _plots
from reports.figures._plots import COLOURS
from reports.pages.blocks import Tone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROW_MM, FOOT_MM = 9.0, 14.0
MOST_LETTERS = 34


def draw(rows: Sequence[PowerRow]) -> dict[str, bytes]:
    """Return the power of a plan as `{"svg": ..., "png": ...}`; see `figure`."""
    svg, png = _plots.draw(_height(rows), lambda figure: _paint(figure, rows))
    return {"svg": svg, "png": png}


def figure(rows: Sequence[PowerRow]) -> Figure:
    """Return a line for each row, from the claim to the least true epsilon that is caught; an arrow ends one without."""
    return _plots.draw_figure(_height(rows), lambda figure: _paint(figure, rows))


def _height(rows: Sequence[PowerRow]) -> float:
    return FOOT_MM + ROW_MM * max(len(rows), 1)


def _paint(figure: Any, rows: Sequence[PowerRow]) -> None:
    height = _height(rows)
    axes = figure.add_axes((0.33, (FOOT_MM - 4) / height, 0.64, 1 - FOOT_MM / height))
    _plots.grid(axes, "x")
    marks = [value for row in rows for value in (row.claim, row.epsilon, row.ceiling) if math.isfinite(value)]
    end = 1.15 * max([*marks, 1.0])
    for place, row in enumerate(rows):
        detectable = row.epsilon if math.isfinite(row.epsilon) else end
        axes.plot([row.claim, detectable], [place, place], color=COLOURS[Tone.MEASURED], linewidth=1.2)
        marker = "o" if math.isfinite(row.epsilon) else ">"
        axes.plot([detectable], [place], marker, color=COLOURS[Tone.MEASURED], markersize=5, clip_on=False)
        if row.claim > 0:
            axes.plot([row.claim], [place], "|", color=COLOURS[Tone.CLAIM], markersize=11, markeredgewidth=2)
        if math.isfinite(row.ceiling):
            axes.plot([row.ceiling], [place], "|", color=COLOURS[Tone.CHANCE], markersize=11, markeredgewidth=1.2)
    names = [elide(f"{row.mechanism}, {row.game}: {row.estimator}", MOST_LETTERS) for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.5, -0.5)  # upside down, since the first row is on top
    axes.set_xlim(0, end)
    axes.set_xlabel("ε. Blue: claimed. Red: caught from here on. Grey: the most that could be proven.")
