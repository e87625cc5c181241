"""Drawings of what a training is good for, and of how evenly it leaks."""

from collections.abc import Sequence
from typing import Any

from audit.core.results import AuditReport, Metric
from audit.core.rounding import SPACE
from reports import headline
from reports.figures import _plots
from reports.figures._plots import Plan
from reports.pages.blocks import Tone
from reports.words import named
from reports.words.language import elide, say
from reports.words.language import figure as draw_figure

MARKERS = ("o", "D", "s", "^", "v", "P")
ROW_MM, FOOT_MM, GAP_MM = 5.0, 9.0, 9.0
LEFT_EDGE, RIGHT, MARGIN = (
    0.22,
    0.94,
    0.004,
)  # of the width: sides of the axes, at least this much of it, and what names stay away from the edge
MOST_LINES = 30  # a figure of more would leave its page no room; the table below it has every line


def utility(report: AuditReport) -> Plan:
    """Return what each training is good for, side by side."""
    figures = [(name, metric) for name, metrics in headline.utility(report) for metric in metrics]
    rows = _first(figures)
    owners = list(dict.fromkeys(owner for owner, _ in rows))
    panels = _panels(rows)
    lines = len(owners) * sum(len(panel) for panel in panels)
    return Plan(
        name="utility",
        caption=say("utility.marks_are_means_over_models", utility_basis=named.utility_basis(report.kind))
        + (say("utility.first", rows=len(rows), all=len(figures)) if len(rows) < len(figures) else ""),
        alt=say("utility.dot_chart_of_utility")
        + say("separator.clauses").join(f"{owner} {metric.name} {draw_figure(metric.value)}" for owner, metric in rows)
        + say("separator.end"),
        height_mm=FOOT_MM + ROW_MM * (lines + 1) + GAP_MM * (len(panels) - 1),
        paint=lambda figure: _paint_utility(figure, rows, owners, panels),
    )


def _first(figures: Sequence[tuple[str, Metric]]) -> list[tuple[str, Metric]]:
    """Return as many of the first metrics, each of the first trainings, as fit on a page."""
    owners = list(dict.fromkeys(owner for owner, _ in figures))[:MOST_LINES]
    names = list(dict.fromkeys(metric.name for _, metric in figures))[: max(1, MOST_LINES // max(1, len(owners)))]
    return [(owner, metric) for owner, metric in figures if owner in owners and metric.name in names]


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
        axes = figure.add_axes((LEFT_EDGE, foot / height, RIGHT - LEFT_EDGE, body / height))
        _paint_panel(axes, rows, owners, names)
        foot -= GAP_MM
    _make_room(figure)


def _make_room(figure: Any) -> None:
    """Moves the left sides of all axes to where the widest name beside them begins within the figure."""
    # how wide a name is only its font tells, once it is drawn
    drawn = figure.get_tightbbox(figure.canvas.get_renderer()).x0 / figure.get_figwidth()
    first = max(LEFT_EDGE, LEFT_EDGE + MARGIN - drawn)
    for axes in figure.axes:
        box = axes.get_position()
        axes.set_position((first, box.y0, RIGHT - first, box.height))


def _paint_panel(axes: Any, rows: Sequence[tuple[str, Metric]], owners: Sequence[str], names: Sequence[str]) -> None:
    ticks = []
    for row, name in enumerate(names):
        for line, owner in enumerate(owners):
            y = -(row * (len(owners) + 0.5) + line)
            ticks.append((y, elide(name, 28) if len(owners) == 1 else f"{elide(name, 14)}, {elide(owner, 24)}"))
            for metric in [metric for row_owner, metric in rows if (row_owner, metric.name) == (owner, name)]:
                low, high = metric.value - metric.spread, metric.value + metric.spread
                axes.plot([low, high], [y, y], color=_plots.INK, linewidth=1.1)
                style = {"marker": MARKERS[line % len(MARKERS)], "fillstyle": "full" if line == 0 else "none"}
                axes.plot([metric.value], [y], color=_plots.INK, markersize=4.2, **style)
                text = draw_figure(metric.value)
                _plots.write(axes, high, y, f"{2 * SPACE}{text}", Tone.PLAIN, fontsize=7)
    axes.set_yticks([y for y, _ in ticks], [text for _, text in ticks])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.1)
    axes.set_ylim(min(y for y, _ in ticks) - 0.6, 0.6)
    _plots.grid(axes)
