"""The drawings of commands that make no report: attacks compared, the power of a plan, a frontier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from audit.core.rounding import elide
from reports.figures import _plots
from reports.figures._plots import COLOURS
from reports.pages.blocks import Tone

if TYPE_CHECKING:
    from audit.core.evaluation import AttackFigure
import math

from audit.core.plans import PowerRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from audit.core.plans import Frontier

COMPARED_MM, COMPARED_FOOT_MM = 6.0, 18.0
ATTACK_LETTERS = 26


def draw_comparison(rows: Sequence[AttackFigure]) -> dict[str, bytes]:
    """Return a comparison as `{"svg": ..., "png": ...}`: a panel for each figure, a row for each attack, strongest on top."""
    attacks = list(dict.fromkeys(row.attack for row in rows))
    svg, png = _plots.draw(COMPARED_FOOT_MM + COMPARED_MM * len(attacks), lambda figure: _paint_comparison(figure, rows))
    return {"svg": svg, "png": png}


def _paint_comparison(figure: Any, rows: Sequence[AttackFigure]) -> None:
    names = list(dict.fromkeys(row.figure for row in rows))
    decisive = names[min(1, len(names) - 1)]  # a TPR at few false positives if there is one, else the AUC
    order = [row.attack for row in sorted(rows, key=lambda row: -row.mean) if row.figure == decisive]
    height, margin = COMPARED_FOOT_MM + COMPARED_MM * len(order), 0.3
    width = (1 - margin) / len(names)
    for place, name in enumerate(names):
        axes = figure.add_axes(
            (margin + place * width, (COMPARED_FOOT_MM - 6) / height, width * 0.88, 1 - COMPARED_FOOT_MM / height)
        )
        _plots.grid(axes, "x")
        by_attack = {row.attack: row for row in rows if row.figure == name}
        means = [by_attack[attack].mean for attack in order]
        errors = [by_attack[attack].error if by_attack[attack].targets > 1 else 0.0 for attack in order]
        axes.errorbar(means, range(len(order)), xerr=errors, fmt="o", markersize=3, color=COLOURS[Tone.MEASURED], linewidth=1)
        labels = [elide(attack, ATTACK_LETTERS) for attack in order] if place == 0 else [""] * len(order)
        axes.set_yticks(range(len(order)), labels)
        axes.set_ylim(len(order) - 0.5, -0.5)
        axes.set_xlabel(name.upper().replace("AT", "at"))


POWER_MM, POWER_FOOT_MM = 9.0, 14.0
ROW_LETTERS = 34


def draw_power(rows: Sequence[PowerRow]) -> dict[str, bytes]:
    """Return the power of a plan as `{"svg": ..., "png": ...}`; see `power_figure`."""
    svg, png = _plots.draw(_power_height(rows), lambda figure: _paint_power(figure, rows))
    return {"svg": svg, "png": png}


def power_figure(rows: Sequence[PowerRow]) -> Figure:
    """Return a line for each row, from the claim to the least true epsilon that is caught; an arrow ends one without."""
    return _plots.draw_figure(_power_height(rows), lambda figure: _paint_power(figure, rows))


def _power_height(rows: Sequence[PowerRow]) -> float:
    return POWER_FOOT_MM + POWER_MM * max(len(rows), 1)


def _paint_power(figure: Any, rows: Sequence[PowerRow]) -> None:
    height = _power_height(rows)
    axes = figure.add_axes((0.33, (POWER_FOOT_MM - 4) / height, 0.64, 1 - POWER_FOOT_MM / height))
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
    names = [elide(f"{row.mechanism}, {row.game}: {row.estimator}", ROW_LETTERS) for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.5, -0.5)  # upside down, since the first row is on top
    axes.set_xlim(0, end)
    axes.set_xlabel("ε. Blue: claimed. Red: caught from here on. Grey: the most that could be proven.")


FRONTIER_MM = 70.0


def write_frontier(frontier: Frontier) -> bytes:
    """Return the figure as SVG; equal frontiers give equal bytes."""
    return _plots.write_svg(frontier_figure(frontier))


def frontier_figure(frontier: Frontier) -> Figure:
    """Return two panels: claimed and proven epsilon on the left, utility on the right, over the noise multiplier."""
    return _plots.draw_figure(FRONTIER_MM, lambda page: _paint_frontier(page, frontier))


def _paint_frontier(page: Any, frontier: Frontier) -> None:
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
