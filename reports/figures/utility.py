"""Drawings of what a training is good for, and of how evenly it leaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from audit.core.game_results import GameResult, GroupResult
from audit.core.results import AuditReport, MechanismResult, Metric
from audit.core.rounding import elide, near, percent
from audit.core.rounding import figure as figure_of
from reports import headline
from reports.figures import _plots
from reports.figures._plots import COLOURS, Plan
from reports.pages.blocks import Tone
from reports.words import en

MARKERS = ("o", "D", "s", "^", "v", "P")
ROW_MM, FOOT_MM, GAP_MM = 5.0, 9.0, 9.0
MOST_GROUPS = 24


def utility(report: AuditReport) -> Plan:
    """What each training is good for, side by side."""
    rows = [(mechanism.name, metric) for mechanism in headline.ordered(report) for metric in mechanism.utility]
    owners = list(dict.fromkeys(owner for owner, _ in rows))
    panels = _panels(rows)
    lines = len(owners) * sum(len(panel) for panel in panels)
    return Plan(
        name="utility",
        caption=f"{en.utility(report.kind)} Marks are means over models, lines one sample standard deviation to each side.",
        alt="Dot chart of utility. "
        + "; ".join(f"{owner} {metric.name} {figure_of(metric.value)}" for owner, metric in rows)
        + ".",
        height_mm=FOOT_MM + ROW_MM * (lines + 1) + GAP_MM * (len(panels) - 1),
        paint=lambda figure: _paint_utility(figure, rows, owners, panels),
    )


def _panels(rows: Sequence[tuple[str, Metric]]) -> list[list[str]]:
    """Metrics that live in [0, 1] share an axis; every other metric has its own."""
    names = list(dict.fromkeys(metric.name for _, metric in rows))
    unit = [name for name in names if all(0 <= metric.value <= 1 for _, metric in rows if metric.name == name)]
    return [group for group in [unit, *([name] for name in names if name not in unit)] if group]


def _paint_utility(
    figure: Any, rows: Sequence[tuple[str, Metric]], owners: Sequence[str], panels: Sequence[Sequence[str]]
) -> None:
    height = figure.get_figheight() * 25.4
    foot = height
    for names in panels:
        body = ROW_MM * len(names) * len(owners) + ROW_MM / len(panels)
        foot -= body
        axes = figure.add_axes((0.22, foot / height, 0.72, body / height))
        _paint_panel(axes, rows, owners, names)
        foot -= GAP_MM


def _paint_panel(axes: Any, rows: Sequence[tuple[str, Metric]], owners: Sequence[str], names: Sequence[str]) -> None:
    ticks = []
    for row, name in enumerate(names):
        for line, owner in enumerate(owners):
            y = -(row * (len(owners) + 0.5) + line)
            ticks.append((y, elide(name, 28) if len(owners) == 1 else f"{elide(name, 12)}, {elide(owner, 16)}"))
            for metric in [metric for row_owner, metric in rows if (row_owner, metric.name) == (owner, name)]:
                low, high = metric.value - metric.spread, metric.value + metric.spread
                axes.plot([low, high], [y, y], color=_plots.INK, linewidth=1.1)
                style = {"marker": MARKERS[line % len(MARKERS)], "fillstyle": "full" if line == 0 else "none"}
                axes.plot([metric.value], [y], color=_plots.INK, markersize=4.2, **style)
                text = figure_of(metric.value)
                axes.annotate(text, (high, y), (5, 0), textcoords="offset points", va="center", fontsize=7)
    axes.set_yticks([y for y, _ in ticks], [text for _, text in ticks])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.1)
    axes.set_ylim(min(y for y, _ in ticks) - 0.6, 0.6)
    _plots.grid(axes)


def groups(mechanism: MechanismResult, game: GameResult) -> Plan:
    """The attack's AUC in each group, the most exposed first."""
    measured_groups = [group for group in game.groups if group.auc is not None]
    groups = sorted(measured_groups, key=lambda group: -(group.auc or 0.0))[:MOST_GROUPS]
    descriptions = [f"{group.group} {near(group.auc or 0.0, 3)}" for group in groups]
    missing = len(game.groups) - len(groups)
    return Plan(
        name=_plots.file_name("groups", mechanism.name, game.name),
        caption=f"{mechanism.name}, {game.name}: attack AUC in each group, the most exposed first, with the "
        "intervals of the table; grey is chance." + (f" {missing} of {len(game.groups)} groups not drawn." if missing else ""),
        alt="Dot chart of attack AUC by group: " + ", ".join(descriptions) + f". Chance is {percent(0.5, 0)}.",
        height_mm=FOOT_MM + 4.0 * len(groups) + 2,
        paint=lambda figure: _paint_groups(figure, groups),
    )


def _paint_groups(figure: Any, groups: Sequence[GroupResult]) -> None:
    height = figure.get_figheight() * 25.4
    axes = figure.add_axes((0.22, FOOT_MM / height, 0.72, 1 - (FOOT_MM + 1) / height))
    places = range(len(groups) - 1, -1, -1)
    axes.axvline(0.5, color=COLOURS[Tone.CHANCE], linewidth=0.9, linestyle=_plots.DASHES[1])
    for y, group in zip(places, groups, strict=True):
        value = group.auc or 0.0
        low, high = (value if end is None else end for end in (group.auc_lower, group.auc_upper))
        axes.plot([low, high], [y, y], color=COLOURS[Tone.MEASURED], linewidth=0.9, alpha=0.6)
        axes.plot([value], [y], marker="o", markersize=4, color=COLOURS[Tone.MEASURED])
        axes.annotate(near(value, 3), (max(high, 0.5), y), (5, 0), textcoords="offset points", va="center", fontsize=7)
    axes.set_yticks(list(places), [elide(group.group, 28) for group in groups])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.1)
    axes.set_ylim(-0.7, len(groups) - 0.3)
    axes.set_xlabel("AUC", labelpad=1)
    _plots.grid(axes, "x")
