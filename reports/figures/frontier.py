"""The drawing of `audit frontier`: epsilon and utility over the noise multiplier."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from audit.core.plans import Frontier
from reports.figures import _plots
from reports.figures._plots import COLOURS
from reports.pages.blocks import Tone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT_MM = 70.0


def write(frontier: Frontier) -> bytes:
    """Return the figure as SVG; equal frontiers give equal bytes."""
    return _plots.write_svg(figure(frontier))


def figure(frontier: Frontier) -> Figure:
    """Return two panels: claimed and proven epsilon on the left, utility on the right, over the noise multiplier."""
    return _plots.draw_figure(HEIGHT_MM, lambda page: _paint(page, frontier))


def _paint(page: Any, frontier: Frontier) -> None:
    rows = frontier.rows
    noise = [row.noise_multiplier for row in rows]
    axes = page.add_axes((0.08, 0.17, 0.5, 0.76))
    _plots.grid(axes)
    lines = (
        ("claimed", [row.claimed for row in rows], Tone.CLAIM, "-o"),
        (f"claimed, best of {frontier.tuning:g} on average", [row.claimed_with_tuning for row in rows], Tone.CLAIM, "--s"),
        ("proven", [row.proven for row in rows], Tone.MEASURED, "-o"),
        ("could have been proven", [row.ceiling for row in rows], Tone.CHANCE, ":"),
    )
    for label, values, tone, style in lines:
        finite = [value if math.isfinite(value) else math.nan for value in values]
        axes.plot(noise, finite, style, color=COLOURS[tone], label=label, markersize=4)
    axes.set_xscale("log")
    axes.set_xticks(noise, [f"{value:g}" for value in noise])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("noise multiplier")
    axes.set_ylabel("ε")
    axes.legend(frameon=False)
    if frontier.metric:
        beside = page.add_axes((0.68, 0.17, 0.29, 0.76))
        _plots.grid(beside)
        utility, spread = ([getattr(row, name) or 0.0 for row in rows] for name in ("utility", "spread"))
        beside.errorbar(noise, utility, yerr=spread, fmt="-o", color=COLOURS[Tone.MEASURED], markersize=4, capsize=2)
        beside.set_xscale("log")
        beside.set_xticks(noise, [f"{value:g}" for value in noise])
        beside.minorticks_off()
        beside.set_xlabel("noise multiplier")
        beside.set_ylabel(frontier.metric)
